// Package adapters has the few lines that run httpmw under gin and echo, as the documentation of httpmw shows them.
package adapters
