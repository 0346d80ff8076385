package locktest_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/locktest"
	"github.com/latchkey-go/latchkey/memstore"
)

func TestMain(m *testing.M) {
	locktest.SetLimit(time.Second) // flaws show by waiting in vain; with stores in memory that will do
	goleak.VerifyTestMain(m)
}

func TestMemstoreConforms(t *testing.T) {
	locktest.Conformance(t, func(*testing.T) (a, b latchkey.Store) {
		s := memstore.New()
		return s, s
	})
}

func TestSloppyStoreWithoutAFlawConforms(t *testing.T) {
	a, b := newSloppy(none)
	for _, v := range locktest.Verify(a, b) {
		t.Errorf("%s: %v", v.Check, v.Err)
	}
}

// caughtBy says which check is there for which flaw.
var caughtBy = map[string]string{
	releaseByAnyone:       "release needs the owner",
	releaseByPrefix:       "release needs the owner",
	renewByAnyone:         "renew needs the owner",
	renewTakesFree:        "renew after another holder is refused",
	forgetsExpiry:         "a lease ends, and not early",
	endsEarly:             "a lease ends, and not early",
	forgetsShortExpiry:    "a lease of a millisecond ends",
	cutsFractions:         "a fraction of a millisecond is rounded up",
	losesFractions:        "a fraction of a millisecond is rounded up",
	emptyHoldsFree:        "an empty owner owns nothing",
	emptyTakes:            "an empty owner owns nothing",
	emptyHoldsAll:         "an empty owner owns nothing",
	doubleGrant:           "of many at once at most one gets the lock",
	refusesOwner:          "acquire is idempotent for one owner",
	keepsOldLease:         "asking again renews",
	losesWakeup:           "a release hands the lock to the first in the queue and tells it",
	wakesOnlyItself:       "a release hands the lock to the first in the queue and tells it",
	tokenGoesBack:         "tokens grow from holder to holder",
	tokenBlockOverlaps:    "tokens grow from holder to holder",
	tokenNotAbove:         "a token is above the number it was asked to be above",
	tokenForAnyone:        "tokens are for the owner",
	ticketReused:          "a ticket stands for one place",
	ticketChanges:         "a ticket stands for one place",
	halfTaken:             "many keys: all or none",
	manyWithoutLease:      "many keys: each has a lease",
	lastInFirstOut:        "a release hands the lock to the first in the queue and tells it",
	keepsPlace:            "who leaves gives up its place and its grant",
	placeForEverybody:     "a refused acquire leaves nothing",
	grantWithoutEnd:       "a grant ends when nobody answers",
	foldsKeys:             "keys are told apart",
	ignoresContext:        "a batch answers each operation for itself",
	leftovers:             "an answer replaces an older one",
	oneFailsAll:           "a batch answers each operation for itself",
	prevByAnyone:          "letting go in favour of a newcomer asks the queue first",
	barIgnored:            "a barred owner is refused",
	barQueued:             "a barred owner has no place in the queue",
	barNotTakenOver:       "the lock of a barred owner is taken over",
	proofByAnyone:         "a proof is of the present owner",
	proofIsOwner:          "a proof is no owner",
	proofOfThePast:        "a proof ends with the lease",
	keepsPlaceWhenGranted: "who gets a free lock leaves its place",
}

// Each flaw must be caught by the check that is named for it; others may stumble over it too.
func TestBrokenStoresAreRejected(t *testing.T) {
	var mu sync.Mutex
	found := make(map[string][]string)
	var all sync.WaitGroup
	for flaw := range caughtBy {
		a, b := newSloppy(flaw)
		all.Go(func() { // a flaw is often seen by waiting in vain: all wait at once
			violations := locktest.Verify(a, b)
			mu.Lock()
			defer mu.Unlock()
			for _, v := range violations {
				found[flaw] = append(found[flaw], v.Check)
				if v.Err == nil || strings.TrimSpace(v.Err.Error()) == "" {
					t.Errorf("%s: %s gives no reason", flaw, v.Check)
				}
			}
		})
	}
	all.Wait()
	for flaw, check := range caughtBy {
		if !slices.Contains(found[flaw], check) {
			t.Errorf("%q was not caught by %q, only by %q", flaw, check, found[flaw])
		}
	}
}

// tattle is a test that may fail.
type tattle struct {
	mu   sync.Mutex
	said []string
}

func (*tattle) Helper() {}

func (s *tattle) Errorf(format string, _ ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, format)
}
