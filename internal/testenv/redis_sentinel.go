//go:build unix

package testenv

import (
	"fmt"
	"net"
	"strconv"
)

// sentinelName is how the sentinel calls its master.
const sentinelName = "latchkey"

// Watched is a master and a replica, watched by a sentinel that makes the replica the master when the master is gone for a
// third of a second. Its methods are called from the test's own goroutine.
type Watched struct {
	Master, Replica *Server // as they were at the start
	sentinel        *Server
}

// Sentinel starts an empty master, a replica and a sentinel for this test. They end with the test.
func Sentinel(t TB) *Watched {
	t.Helper()
	w := &Watched{Master: Redis(t), Replica: Redis(t)}
	w.Replica.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(w.Master.port))
	awaitReplica(t, w.Replica)
	w.sentinel = Redis(t, func(c *redisConf) {
		c.sentinel = fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 1\n"+
			"sentinel down-after-milliseconds %[1]s 333\nsentinel failover-timeout %[1]s 3000\n", sentinelName, w.Master.port)
	})
	awaitServer(t, w.sentinel, "the sentinel knows the replica", func(s *Server) bool {
		replicas, _ := s.Do(t, "SENTINEL", "REPLICAS", sentinelName).([]any)
		return len(replicas) == 1
	})
	return w
}

// Name is what clients call the master.
func (*Watched) Name() string { return sentinelName }

// SentinelAddr is where clients ask for the master's address.
func (w *Watched) SentinelAddr() string { return w.sentinel.Addr() }

// AwaitMaster returns when the sentinel names s as the master and s has agreed.
func (w *Watched) AwaitMaster(t TB, s *Server) {
	t.Helper()
	awaitServer(t, w.sentinel, s.Addr()+" is the master", func(sentinel *Server) bool {
		addr, _ := sentinel.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelName).([]any)
		return len(addr) == 2 && net.JoinHostPort(fmt.Sprint(addr[0]), fmt.Sprint(addr[1])) == s.Addr() &&
			s.Info(t, "replication")["role"] == "master"
	})
}
