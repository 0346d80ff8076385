package main

import (
	"strconv"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

// pinVar names, for a child, the core to run on.
const pinVar = "LATCHKEY_BENCH_CORE"

// anyCore leaves a process to the scheduler.
const anyCore = -1

// placement says where client and server run.
type placement struct {
	name           string
	client, server int
}

var unpinned = placement{"unpinned", anyCore, anyCore}

// placements returns the settings for figures of one goroutine that this machine allows.
func placements() []placement {
	switch all := cores(); len(all) {
	case 0:
		return []placement{unpinned}
	case 1:
		return []placement{{"one core", all[0], all[0]}}
	default:
		return []placement{{"one core", all[0], all[0]}, {"two cores", all[0], all[1]}}
	}
}

// oneCore is the placement for what needs no server.
func oneCore() placement { return placements()[0] }

// twoCores is the placement for latency, or the nearest there is.
func twoCores() placement {
	all := placements()
	return all[len(all)-1]
}

// redis starts a server where the placement wants it.
func (p placement) redis(env testenv.TB) *testenv.Server {
	env.Helper()
	srv := testenv.Redis(env)
	if p.server == anyCore {
		return srv
	}
	pid, err := strconv.Atoi(srv.Info(env, "server")["process_id"])
	if err != nil {
		env.Fatalf("redis-server's process id: %v", err)
	}
	if err := pinProcess(pid, p.server); err != nil {
		env.Fatalf("%v", err)
	}
	return srv
}
