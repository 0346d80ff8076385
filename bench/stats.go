package main

import (
	"fmt"
	"math"
	"slices"
)

// series has one figure for each round.
type series []float64

// median returns the one in the middle, NaN if there is none.
func (s series) median() float64 { return s.quantile(0.5) }

// quantile returns the figure that the part q of all figures does not exceed, NaN if there is none.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if q == 0.5 && len(sorted)%2 == 0 {
		return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]) / 2
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// over divides each round's figure by the other's of the same round.
func (s series) over(other series) series {
	n := min(len(s), len(other))
	ratios := make(series, n)
	for i := range n {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}

// times multiplies every figure.
func (s series) times(factor float64) series {
	scaled := make(series, len(s))
	for i := range s {
		scaled[i] = s[i] * factor
	}
	return scaled
}

// fewRounds are too few for quartiles.
const fewRounds = 8

// spread prints the median and in which range it lies: the quartiles, or the lowest and the highest of a few.
func (s series) spread(format string) string {
	low, high := 0.25, 0.75
	switch {
	case len(s) == 0:
		return "–"
	case len(s) == 1:
		return fmt.Sprintf(format, s[0])
	case len(s) < fewRounds:
		low, high = 0, 1
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.median(), s.quantile(low), s.quantile(high))
}

// better returns, round by round, the larger of several series.
func better(all ...series) series {
	best := slices.Clone(all[0])
	for _, s := range all[1:] {
		for i := range min(len(best), len(s)) {
			best[i] = max(best[i], s[i])
		}
	}
	return best
}

// jain is Jain's index of fairness.
func jain(turns []int64) float64 {
	var sum, squares float64
	for _, n := range turns {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(turns)) * squares)
}
