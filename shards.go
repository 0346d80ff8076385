package latchkey

import (
	"sync"

	"github.com/latchkey-go/latchkey/internal/batch"
)

// Sharded is implemented by a [Store] that keeps locks in several places, each of which may hang by itself, such as the
// masters of a Redis Cluster. What is asked of one shard never waits for an answer from another.
type Sharded interface {
	// Shard names the place where a key is at this moment. It is called for every operation, by many goroutines at once,
	// and must answer from memory. A wrong answer costs nothing but patience.
	Shard(key string) string
}

// lines are the ways to a store, on which operations share trips: one, or one for each shard.
type lines struct {
	shard func(key string) string // nil: there is one line
	line  func() *batch.Batcher[*asked]

	only *batch.Batcher[*asked]
	mu   sync.RWMutex
	all  map[string]*batch.Batcher[*asked]
}

func newLines(store Store, line func() *batch.Batcher[*asked]) *lines {
	ls := &lines{line: line, only: line()}
	if s, ok := store.(Sharded); ok {
		ls.shard, ls.all = s.Shard, make(map[string]*batch.Batcher[*asked])
	}
	return ls
}

// to returns the line for a key.
func (ls *lines) to(key string) *batch.Batcher[*asked] {
	if ls.shard == nil {
		return ls.only
	}
	shard := ls.shard(key)
	if shard == "" {
		return ls.only
	}
	ls.mu.RLock()
	line := ls.all[shard]
	ls.mu.RUnlock()
	if line != nil {
		return line
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all[shard] == nil {
		ls.all[shard] = ls.line()
	}
	return ls.all[shard]
}

// part is what of a batch goes to one shard.
type part struct {
	at   []int // where the operations are in the batch
	ops  []Op
	done chan struct{} // closed when all have their answers
}

// split parts a batch by shards. The operations are copies: an answer that comes too late is written where nobody looks.
func (ls *lines) split(batch []Op) []*part {
	var parts []*part
	byShard := make(map[string]*part)
	for i := range batch {
		shard := ""
		if ls.shard != nil {
			shard = ls.shard(batch[i].Key)
		}
		p := byShard[shard]
		if p == nil {
			p = &part{done: make(chan struct{})}
			byShard[shard] = p
			parts = append(parts, p)
		}
		p.at, p.ops = append(p.at, i), append(p.ops, batch[i])
	}
	return parts
}

// do has the store answer the part.
func (p *part) do(l *Locks, ctx until) {
	defer close(p.done)
	ops := make([]*Op, len(p.ops))
	for i := range p.ops {
		ops[i] = &p.ops[i]
	}
	l.store.Do(ctx, ops)
}
