package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// job is what a worker process is to do, as often as it is told.
type job struct {
	Load      string `json:"load"` // of loads
	Contender string `json:"contender"`
	Addr      string `json:"addr"` // of the server; of several, with commas
	// Goroutines share one key, or have keys of their own, keep each lock for Body and stay away for Pause.
	Goroutines int           `json:"goroutines"`
	OneKey     bool          `json:"oneKey"`
	Body       time.Duration `json:"body"`
	Pause      time.Duration `json:"pause"`
	// Driver and URL are those of the database, if there is one.
	Driver string `json:"driver"`
	URL    string `json:"url"`
	// N leases are held, renewed before Lease is over.
	N     int           `json:"n"`
	Lease time.Duration `json:"lease"`
}

// loads are what a worker can do. Each prepares itself and returns what to do in a round.
var loads = map[string]func(j job) (func(turn) (any, error), error){
	"pairs":    pairs,
	"ping":     pings,
	"memstore": memoryLoad,
	"keys":     keysLoad,
	"http":     webLoad,
	"quorum":   quorumLoad,
	"held":     heldLoad,
}

// turn is a worker's turn in a round. All workers of one contender begin at the same moment.
type turn struct {
	Begin time.Time     `json:"begin"`
	For   time.Duration `json:"for"`
}

func (t turn) end() time.Time { return t.Begin.Add(t.For) }

// work is the worker process: it prepares, says "ready", and answers each turn with a line.
func work(self *testenv.Self) {
	var j job
	if err := json.Unmarshal([]byte(self.Args[0]), &j); err != nil {
		self.Failf("worker: %v", err)
	}
	act, err := loads[j.Load](j)
	if err != nil {
		self.Failf("worker %s, %s: %v", j.Load, j.Contender, err)
	}
	self.Sayf("ready")
	for n := 0; ; n++ {
		line, ok := self.Hear()
		if !ok {
			return
		}
		var t turn
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			self.Failf("worker: %v", err)
		}
		result, err := j.profile(n, func() (any, error) { return act(t) })
		if err != nil {
			self.Failf("worker %s, %s: %v", j.Load, j.Contender, err)
		}
		text, err := json.Marshal(result)
		if err != nil {
			self.Failf("worker: %v", err)
		}
		self.Sayf("%s", text)
	}
}

// crew is the workers of one contender. T is what each answers.
type crew[T any] []*testenv.ChildProcess

// hire starts n workers for a job, pinned to a core unless it is anyCore, and returns when they are ready.
func hire[T any](env testenv.TB, n, core int, j job) crew[T] {
	env.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		env.Fatalf("%v", err)
	}
	opts := []testenv.ChildOption{testenv.Args(string(text))}
	if core != anyCore {
		opts = append(opts, testenv.Env(pinVar, strconv.Itoa(core)))
	}
	opts = profiled(opts)
	c := make(crew[T], n)
	for i := range c {
		c[i] = testenv.Child(env, "worker", opts...)
	}
	for _, w := range c {
		w.Hear(env)
	}
	return c
}

// turn has all workers do their work at once and returns their answers.
func (c crew[T]) turn(env testenv.TB, d time.Duration) []T {
	env.Helper()
	t, err := json.Marshal(turn{time.Now().Add(10 * time.Millisecond), d})
	if err != nil {
		env.Fatalf("%v", err)
	}
	for _, w := range c {
		w.Sayf(env, "%s", t)
	}
	answers := make([]T, len(c))
	for i, w := range c {
		line := w.Hear(env)
		if err := json.Unmarshal([]byte(line), &answers[i]); err != nil {
			env.Fatalf("worker answered %q: %v", line, err)
		}
	}
	return answers
}

// dismiss ends the workers before the table's end.
func (c crew[T]) dismiss(env testenv.TB) {
	env.Helper()
	for _, w := range c {
		w.Kill(env)
	}
}

// usage is what a stretch of work cost this process.
type usage struct {
	CPU     time.Duration
	Mallocs uint64
	Bytes   uint64
}

func usageNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpuNow(), m.Mallocs, m.TotalAlloc}
}

// cpuNow is the CPU time that this process has used.
func cpuNow() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for the process itself
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (u usage) since(before usage) usage {
	return usage{u.CPU - before.CPU, u.Mallocs - before.Mallocs, u.Bytes - before.Bytes}
}

// serverCPU returns the CPU time that a server has used.
func serverCPU(env testenv.TB, srv *testenv.Server) time.Duration {
	env.Helper()
	info := srv.Info(env, "cpu")
	var sum time.Duration
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			env.Fatalf("INFO cpu: %s: %v", field, err)
		}
		sum += time.Duration(s * float64(time.Second))
	}
	return sum
}

// connect returns a client as every contender has it: go-redis as it comes, with a connection for each goroutine that may
// want one at the same time.
func connect(j job) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: j.Addr, PoolSize: max(16, j.Goroutines)})
}

// errorf says which contender failed.
func (j job) errorf(format string, args ...any) error {
	return fmt.Errorf(j.Contender+": "+format, args...)
}
