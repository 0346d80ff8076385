package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/memstore"
)

// A request costs at most ten allocations beyond those of its key: here the key is fixed, and costs none.
func TestAllocationsPerRequest(t *testing.T) {
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	w := httptest.NewRecorder()
	count := func(h http.Handler) float64 {
		return testing.AllocsPerRun(500, func() { h.ServeHTTP(w, r) })
	}
	base, locked := count(bare), count(httpmw.New(locks.WithLock("order"))(bare))
	if locked-base > 10 || locked-base < 1 {
		t.Errorf("%v allocations, %v of them the bare handler's", locked, base)
	}
}
