//go:build unix

package itest

import (
	"testing"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Children{
		"alone":    alone,
		"counter":  counter,
		"holder":   holder,
		"spinner":  spinner,
		"burner":   burner,
		"starved":  starved,
		"transfer": transfer,
	})
}
