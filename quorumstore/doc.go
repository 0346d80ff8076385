// Package quorumstore keeps locks in a majority of independent Redis masters.
package quorumstore
