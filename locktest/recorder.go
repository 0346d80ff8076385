package locktest

import (
	"context"
	"sync"

	"github.com/latchkey-go/latchkey"
)

// Recorder is a [latchkey.Store] that passes everything on to another one and takes it down. It is safe for concurrent
// use. Create it with [NewRecorder].
type Recorder struct {
	latchkey.Store

	mu   sync.Mutex
	ops  []latchkey.Op
	fail func(op latchkey.Op) error
}

var _ latchkey.Store = (*Recorder)(nil)

// NewRecorder returns a recorder around the store.
func NewRecorder(store latchkey.Store) *Recorder { return &Recorder{Store: store} }

// Do implements [latchkey.Store].
func (r *Recorder) Do(ctx context.Context, ops []*latchkey.Op) {
	r.mu.Lock()
	fail := r.fail
	r.mu.Unlock()
	pass := make([]*latchkey.Op, 0, len(ops))
	for _, op := range ops {
		if fail != nil {
			if err := fail(*op); err != nil {
				op.Reset()
				op.Err = err
				continue
			}
		}
		pass = append(pass, op)
	}
	if len(pass) > 0 {
		r.Store.Do(ctx, pass)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range ops {
		r.ops = append(r.ops, *op)
	}
}

// FailWith has the store answer an operation with the error that fail returns for it; nil lets it through. The operation
// then does not reach the store. A nil function ends the faults. fail may be called from several goroutines at once.
func (r *Recorder) FailWith(fail func(op latchkey.Op) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

// Ops returns all operations so far, with their answers, in the order in which they were answered.
func (r *Recorder) Ops() []latchkey.Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]latchkey.Op(nil), r.ops...)
}

// Locked returns the full keys that were taken, in order, once for each time.
func (r *Recorder) Locked() []string {
	return r.keys(latchkey.OpAcquire)
}

// Released returns the full keys that were let go, in order, once for each time.
func (r *Recorder) Released() []string {
	return r.keys(latchkey.OpRelease)
}

func (r *Recorder) keys(kind latchkey.OpKind) (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ops {
		if op := &r.ops[i]; op.OK && op.Kind == kind {
			keys = append(append(keys, op.Key), op.More...)
		}
	}
	return keys
}

// Forget empties the record.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = nil
}
