//go:build unix

package recipes

import (
	"testing"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }
