//go:build unix

package transactions

import (
	"testing"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Children{
		"counter": counterChild,
	})
}
