//go:build unix

package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/redisstore"
)

// A key that some other program has set to nothing belongs to it, and not to an owner that somebody forgot to name.
func TestEmptyValueIsNotAnEmptyOwners(t *testing.T) {
	srv := testenv.Redis(t)
	store := redisstore.New(client(t, srv.Addr()))
	for _, kind := range []latchkey.OpKind{latchkey.OpAcquire, latchkey.OpRenew, latchkey.OpRelease, latchkey.OpToken, latchkey.OpProve} {
		for _, leave := range []bool{false, true} {
			srv.Do(t, "SET", "k", "", "PX", "60000")
			op := latchkey.Op{Kind: kind, Key: "k", Lease: time.Hour, Grant: time.Second, Tokens: 1, Leave: leave}
			store.Do(context.Background(), []*latchkey.Op{&op})
			if op.OK {
				t.Errorf("%v: the answer is yes", kind)
			}
			if left, _ := srv.Do(t, "PTTL", "k").(int64); left <= 0 || left > 60000 {
				t.Errorf("%v: the key lives for %d ms", kind, left)
			}
		}
	}
	// The control: whoever names an owner that the key does hold is answered yes.
	srv.Do(t, "SET", "k", "somebody", "PX", "60000")
	op := latchkey.Op{Kind: latchkey.OpRenew, Key: "k", Lease: time.Hour, Owner: "somebody"}
	store.Do(context.Background(), []*latchkey.Op{&op})
	if !op.OK {
		t.Errorf("renew by its owner: %v", op.Err)
	}
}
