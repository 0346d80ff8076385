package main

import "testing"

func TestFourWindowsSellEveryTicketOnceInOrder(t *testing.T) {
	hall := &Hall{Tickets: 40}
	hall.Open("A", "B", "C", "D")

	if err := hall.Check(); err != nil {
		t.Error(err)
	}
	windows := map[string]int{}
	for _, sale := range hall.Sold {
		windows[sale.Window]++
	}
	if len(windows) != 4 {
		t.Errorf("tickets by window: %v, want all four to sell", windows)
	}
}

// The control: what goes wrong without a lock has to be noticed.
func TestCheckNotices(t *testing.T) {
	for name, sold := range map[string][]Sale{
		"a ticket sold twice":     {{1, "A"}, {1, "B"}, {2, "A"}},
		"a ticket left out":       {{1, "A"}, {3, "B"}, {4, "A"}},
		"tickets out of order":    {{2, "A"}, {1, "B"}, {3, "A"}},
		"one ticket too many":     {{1, "A"}, {2, "B"}, {3, "A"}, {4, "B"}},
		"one ticket not sold":     {{1, "A"}, {2, "B"}},
		"no ticket sold at all":   {},
		"the last one came twice": {{1, "A"}, {2, "B"}, {3, "A"}, {3, "B"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (&Hall{Tickets: 3, Sold: sold}).Check(); err == nil {
				t.Errorf("Check accepts %v", sold)
			}
		})
	}
}
