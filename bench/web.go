package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/httpmw"
	"github.com/latchkey-go/latchkey/internal/testenv"
	"github.com/latchkey-go/latchkey/memstore"
)

// The ways to serve a request, by what keeps two for the same order apart.
const (
	bareHandler  = "nothing"
	mutexMap     = "a map of mutexes"
	fixedKey     = "latchkey, fixed key"
	pathKey      = "latchkey, key from the path"
	overLoopback = ", over loopback"
)

var webNames = []string{bareHandler, mutexMap, fixedKey, pathKey, mutexMap + overLoopback, pathKey + overLoopback}

// web measures what the middleware adds to a request where the store costs next to nothing, beside the least that keeps
// two requests for one order apart in one process.
func web(env testenv.TB, c config, r *report) {
	r.titlef("http, %s: POST /orders/{id}/pay through http.ServeMux, over memstore", oneCore().name)
	r.notef("lower quartile of samples of %v, the fastest and the upper quartile in parentheses", sampleFor)
	r.notef("without a listener unless it says so; the allocations of the lock are those beyond the bare handler's")
	all := measureLocal(env, c, "http")
	beyond := func(name string) float64 {
		return math.Round(all[name].allocs.median() - all[bareHandler].allocs.median())
	}
	rows := make([]string, len(webNames))
	for i, name := range webNames {
		base, allocs := mutexMap, fmt.Sprintf("%.0f", beyond(name))
		if strings.HasSuffix(name, overLoopback) {
			base, allocs = mutexMap+overLoopback, "–" // most are the client's
		}
		rows[i] = fmt.Sprintf("%s\t%s\t%.2f\t%s", name, all[name].print(), all[name].undisturbed()/all[base].undisturbed(), allocs)
	}
	r.table("kept apart by\tCPU ns\t× a map of mutexes\tallocs of the lock", rows)
	r.notef("latchkey: the key's own allocations are %.0f of the %.0f", beyond(pathKey)-beyond(fixedKey), beyond(pathKey))
	r.atMost("http, latchkey, allocations beyond the key's", series{beyond(fixedKey)}, 10)
}

func webLoad(job) (func(turn) (any, error), error) {
	locks := latchkey.New(memstore.New())
	served := 0
	pay := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	handlers := map[string]http.Handler{
		bareHandler: pay,
		mutexMap:    (&mutexes{locked: make(map[string]*countedMutex)}).around(pay),
		fixedKey:    httpmw.New(locks.WithLock("order"))(pay),
		pathKey:     httpmw.New(locks.WithLock("order:#{path.id}"))(pay),
	}
	requests, err := payments()
	if err != nil {
		return nil, err
	}
	ops := make(map[string]func())
	for name, h := range handlers {
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}/pay", h)
		n, w := 0, &noAnswer{header: make(http.Header)}
		ops[name] = func() {
			n = (n + 1) % len(requests)
			mux.ServeHTTP(w, requests[n])
		}
		if slices.Contains(webNames, name+overLoopback) {
			if ops[name+overLoopback], err = overNetwork(mux); err != nil {
				return nil, err
			}
		}
	}
	act := timings(webNames, ops)
	return func(t turn) (any, error) {
		results, err := act(t)
		if served == 0 {
			return nil, errors.New("no request reached its handler")
		}
		return results, err
	}, nil
}

// payments are requests for different orders, one after the other.
func payments() ([]*http.Request, error) {
	requests := make([]*http.Request, spreadKeys)
	for i := range requests {
		r, err := http.NewRequestWithContext(requestContext(), http.MethodPost, paymentPath(i), http.NoBody)
		if err != nil {
			return nil, err
		}
		requests[i] = r
	}
	return requests, nil
}

func paymentPath(i int) string { return "/orders/" + strconv.Itoa(1_000_000+i) + "/pay" }

// noAnswer is a ResponseWriter that costs nothing.
type noAnswer struct{ header http.Header }

func (w *noAnswer) Header() http.Header         { return w.header }
func (w *noAnswer) Write(b []byte) (int, error) { return len(b), nil }
func (w *noAnswer) WriteHeader(int)             {}

// overNetwork has a server listen, until the process ends, and returns a request to it over one connection.
func overNetwork(h http.Handler) (func(), error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { panic(http.Serve(listener, h)) }()
	client, ctx, n := &http.Client{Transport: &http.Transport{}}, context.Background(), 0
	return func() {
		n = (n + 1) % spreadKeys
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+listener.Addr().String()+paymentPath(n), http.NoBody)
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			panic(fmt.Sprint("a request was answered ", resp, err))
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}, nil
}

// mutexes are a mutex for each order that a request is at work on.
type mutexes struct {
	mu     sync.Mutex
	locked map[string]*countedMutex
}

type countedMutex struct {
	sync.Mutex

	users int
}

func (m *mutexes) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		m.mu.Lock()
		order := m.locked[id]
		if order == nil {
			order = &countedMutex{}
			m.locked[id] = order
		}
		order.users++
		m.mu.Unlock()
		order.Lock()
		defer func() {
			order.Unlock()
			m.mu.Lock()
			defer m.mu.Unlock()
			if order.users--; order.users == 0 {
				delete(m.locked, id)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
