package latchkey

import (
	"context"
	"crypto/sha1" //nolint:gosec // what a Redis script can calculate; it hides 128 random bits, which takes no more
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// A lease travels with a call to another service as a text that shows it is held, without what it takes to hold it:
// for each key a hash of the key, to find it by, and a hash of its owner, which the store compares with the owner's.

const (
	// maxTravel is how many keys travel with a call, the innermost first: their text has to fit a header.
	maxTravel = 32
	// proofLease is how long a proof counts until it is checked again.
	proofLease = 3 * time.Second

	keyIDLen, proofLen = 16, 2 * sha1.Size
)

// Proof returns what [OpProve] compares with the hash of a lock's owner.
func Proof(owner string) string {
	sum := sha1.Sum([]byte(owner)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

func travelID(full string) string {
	sum := sha256.Sum256([]byte(full))
	return hex.EncodeToString(sum[:keyIDLen/2])
}

// ExportLeases returns a text that shows which locks ctx holds, by leases or by an open transaction, for a call to a service
// that takes the same locks in the same store: with [ImportLeases] it enters them instead of waiting for its own caller. It
// is empty if there are none. Of more than 32 locks the innermost travel. A store that can't prove who holds a lock
// ([Capabilities].Proofs), such as quorumstore, lets nobody enter: there the callee waits for its caller.
//
// The text contains no key and no owner. Whoever has it can enter these locks for as long as they are held, at services
// that import such texts, and nothing else: not renew, extend or release them, and not take them when they are released.
// So send it only to services that you trust with that, over connections that nobody else reads. A lock that was
// exported is not handed over to another caller in this process, so that the text is worthless once it is released.
func ExportLeases(ctx context.Context) string {
	var proofs []string
	now := watchdog.Now()
	for _, h := range enterable(ctx) {
		if len(proofs) == maxTravel {
			break
		}
		if proof, ok := h.prove(now); ok {
			proofs = append(proofs, travelID(h.g.full)+"."+proof)
		}
	}
	return strings.Join(proofs, ",")
}

// enterable lists the holds that a lock taken with ctx would enter, each once: those of the leases that ctx carries, then
// those of the transactions that it is in.
func enterable(ctx context.Context) []*hold {
	holds := heldBy(ctx)
	for lv := levelOf(ctx); lv != nil; lv = lv.t.outer {
		for _, h := range lv.t.carriedHolds() {
			if !slices.Contains(holds, h) {
				holds = append(holds, h)
			}
		}
	}
	return holds
}

// carriedHolds lists the holds that the transaction carries; none when it is over.
func (t *txn) carriedHolds() (holds []*hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == txOver {
		return nil
	}
	for _, le := range t.carried {
		holds = append(holds, le.holds...)
	}
	return holds
}

// prove returns the proof of a hold, from now on nobody else's.
func (h *hold) prove(now watchdog.Reading) (string, bool) {
	switch {
	case h.g.proof != "": // on to the next service
		return h.g.proof, h.live(now)
	case h.claim(now):
		return Proof(h.g.owner), true
	}
	return "", false
}

type importKey struct{}

// ImportLeases returns a context in which the locks that a caller exported count as held, once the store has confirmed
// each: acquiring one of them enters it, as if the caller's function had called this one in the same process. While
// work goes on under it the store is asked again, every second or more often; when the caller has released or lost the
// lock, the work's context ends with [ErrLeaseLost]. Fencing tokens stay with the caller: a lock that is to mint one can't be
// entered like this, and a transaction that is to be fenced is not begun under one that was, whether the store or the
// database ([DatabaseTokens]) mints; say [WithoutFence] for one that writes nothing that the lock guards. COMMIT under such a
// lock has half of what the caller's lease had left, if [CommitTimeout] allows more.
//
// text is what [ExportLeases] returned; anything else is ignored, and so is what the store does not confirm. Import only
// what came from a service that is trusted: the text of somebody who saw such a call is as good.
func ImportLeases(ctx context.Context, text string) context.Context {
	if text == "" || len(text) > maxTravel*(keyIDLen+proofLen+2) {
		return ctx
	}
	proofs := make(map[string][]string)
	for part := range strings.SplitSeq(text, ",") {
		id, proof, ok := strings.Cut(strings.TrimSpace(part), ".")
		if ok && isHex(id, keyIDLen) && isHex(proof, proofLen) && !slices.Contains(proofs[id], proof) {
			proofs[id] = append(proofs[id], proof)
		}
	}
	if len(proofs) == 0 {
		return ctx
	}
	return context.WithValue(ctx, importKey{}, proofs)
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == n
}

var errNoBorrowedTokens = errors.New("latchkey: the lock came with the call, and its fencing tokens stay with the caller; " +
	"leave out what needs a token here, or do not import the caller's leases")

// enterHeld returns a hold on the key that is there already: in the context, in a transaction that the context is in, or
// in the hands of whoever made this call. It returns nil if there is none.
func (l *Locks) enterHeld(ctx context.Context, near *leaseCtx, level *txLevel, full string, r *request) (*hold, error) {
	if h := near.find(l.store, full, r.start); h != nil {
		return h, nil
	}
	if h := level.find(l.store, full, r.start); h != nil {
		return h, nil
	}
	proofs, _ := ctx.Value(importKey{}).(map[string][]string)
	if proofs == nil || !l.caps.Proofs {
		return nil, nil
	}
	for _, proof := range proofs[travelID(full)] {
		op, sent := l.check(ctx, full, proof, r)
		switch {
		case op.Err != nil:
			return nil, storeError{OpProve, full[len(l.prefix):], op.Err}
		case !op.OK || op.Remaining <= 0:
			continue
		case r.mint:
			return nil, errNoBorrowedTokens
		}
		g := &grant{locks: l, full: full, proof: proof, ours: true, since: sent, grant: op.Remaining}
		g.item.Lease, g.item.Ref = min(op.Remaining, proofLease), g
		l.dog.Add(&g.item, sent)
		bounds := *r
		if r.fixed { // the hold is the caller's to renew; the work under it is bounded all the same
			bounds.maxHold = r.lease
		}
		h := &hold{}
		l.begin(ctx, h, g, &bounds, watchdog.Now())
		return h, nil
	}
	return nil, nil
}

// check asks the store whether a proof is good. A store that fails is asked again for one op timeout.
func (l *Locks) check(ctx context.Context, full, proof string, r *request) (op Op, sent watchdog.Reading) {
	for pause := firstRetry; ; pause *= 2 {
		sent = watchdog.Now()
		op = l.ask(ctx, Op{Kind: OpProve, Key: full, Owner: proof})
		late := watchdog.Now().Sub(r.start)+pause >= l.opTimeout
		if op.Err == nil || op.Final || ctx.Err() != nil || late || !sleep(ctx, pause) {
			return op, sent
		}
	}
}
