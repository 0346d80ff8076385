package latchkey

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/latchkey-go/latchkey/internal/watchdog"
)

// What a transaction asks of the leases it runs under.

// cover makes sure that the hold lasts for need, renewing it if there is less left. The error matches [ErrLeaseLost].
func (h *hold) cover(need time.Duration) error {
	now := watchdog.Now()
	if !h.live(now) {
		return h.gone()
	}
	l, g := h.g.locks, h.g
	if h.limit != nil && h.limit.Deadline.Left(now) < need {
		return lostError{g.key(), "MaxHold leaves no time for COMMIT"}
	}
	if g.item.Deadline.Left(now) >= need {
		return nil
	}
	if g.fixed {
		return lostError{g.key(), "LeaseFor leaves no time for COMMIT"}
	}
	if g.proof != "" {
		return g.proven(need)
	}
	op := l.ask(backgroundCtx, Op{Kind: OpRenew, Key: g.full, Owner: g.owner, Lease: g.item.Lease})
	switch {
	case op.Err != nil:
		return lostError{g.key(), "it could not be renewed for COMMIT: " + op.Err.Error()}
	case !op.OK:
		return g.gone()
	}
	l.dog.Extend(&g.item, now)
	now = watchdog.Now()
	if !h.live(now) {
		return h.gone()
	}
	if g.item.Deadline.Left(now) < need {
		return lostError{g.key(), "the store took too long to renew it for COMMIT"}
	}
	return nil
}

// proven makes sure that a borrowed lock lasts for need. Only the caller can renew it, and the store says how long it has.
func (g *grant) proven(need time.Duration) error {
	l, sent := g.locks, watchdog.Now()
	op := l.ask(backgroundCtx, Op{Kind: OpProve, Key: g.full, Owner: g.proof})
	switch {
	case op.Err != nil:
		return lostError{g.key(), "it could not be confirmed for COMMIT: " + op.Err.Error()}
	case !op.OK || op.Remaining <= 0:
		return g.gone()
	case sent.Add(op.Remaining).Sub(watchdog.Now()) < need:
		return lostError{g.key(), "the caller's lease leaves no time for COMMIT"}
	}
	l.dog.ExtendFor(&g.item, sent, min(op.Remaining, proofLease))
	return nil
}

// gone says how the hold ended.
func (h *hold) gone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return h.cause
	}
	return lostError{h.g.key(), "it was released"}
}

// letExpire keeps the lock from being let go: whoever comes next gets it when the lease has run out.
func (h *hold) letExpire() {
	h.mu.Lock()
	h.expire = true
	h.mu.Unlock()
	h.g.private.Store(true)
	h.fade()
}

// fade ends the renewals.
func (h *hold) fade() { h.g.locks.dog.Fix(&h.g.item) }

// commitTime is how long a COMMIT under the hold may take: what the user has set, or else the default if the lease is not
// too short for it. How long a caller's lease is cannot be known beforehand, so that it bounds what the user has set.
func (h *hold) commitTime(c *txConfig) time.Duration {
	switch {
	case h.g.proof != "" && c.commitSet:
		return min(c.commitTimeout, h.g.grant/2)
	case h.g.proof != "":
		return min(c.commitTimeout, h.g.grant/2, proofLease/2)
	case c.commitSet:
		return c.commitTimeout
	}
	return min(c.commitTimeout, h.g.item.Lease/2)
}

// holder names the hold's owner in the database without giving the owner away.
func (h *hold) holder() string {
	sum := sha256.Sum256([]byte(h.g.owner))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// mintAbove replaces the token by one that is larger than seen. It asks the store, which answers only the owner.
func (h *hold) mintAbove(ctx context.Context, seen int64) error {
	h.tokens.Lock()
	defer h.tokens.Unlock()
	if !h.claim(watchdog.Now()) {
		return h.gone()
	}
	l, g := h.g.locks, h.g
	op := l.ask(ctx, Op{Kind: OpToken, Key: g.full, Owner: g.owner, Tokens: 1, Above: seen})
	switch {
	case op.Err != nil:
		return storeError{OpToken, g.key(), op.Err}
	case !op.OK:
		return g.gone()
	}
	h.token, h.minted = op.Token, true
	return nil
}
