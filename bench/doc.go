// Package bench measures latchkey beside its peers, on one machine and in one run, so that its figures are ratios that
// another machine can repeat. Every claim about speed that the documentation makes comes from here.
package bench
