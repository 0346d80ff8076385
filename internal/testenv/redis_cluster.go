//go:build unix

package testenv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	slotCount    = 16384
	clusterLimit = 30 * time.Second // for nodes to agree about something
	clusterAsk   = 20 * time.Millisecond
)

// Nodes is a Redis Cluster: masters that share the slots, and perhaps a replica of each. Its methods are called from the
// test's own goroutine.
type Nodes struct {
	Masters  []*Server
	Replicas []*Server // Replicas[i] follows Masters[i]; empty unless asked for
}

// Cluster starts an empty cluster of masters for this test, each with a replica if replicas says so, and returns when every
// node has agreed that it is whole. It ends with the test.
func Cluster(t TB, masters int, replicas bool, opts ...RedisOption) *Nodes {
	t.Helper()
	c := &Nodes{}
	node := func() *Server {
		return Redis(t, append([]RedisOption{
			Config("cluster-enabled", "yes"), Config("cluster-node-timeout", "1000"),
			// The bus is ten thousand ports above: both stay below what systems hand to outgoing connections.
			func(conf *redisConf) { conf.pickPort = func() int { return 12000 + rand.IntN(10000) } },
		}, opts...)...)
	}
	for i := range masters {
		m := node()
		m.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slotCount / masters; slot < (i+1)*slotCount/masters; slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		m.Do(t, args...)
		c.Masters = append(c.Masters, m)
		if replicas {
			c.Replicas = append(c.Replicas, node())
		}
	}
	for _, s := range c.all()[1:] {
		c.Masters[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.port))
	}
	c.await(t, "every node knows every other", func(s *Server) bool {
		return strings.Contains(fmt.Sprint(s.Do(t, "CLUSTER", "INFO")), fmt.Sprintf("cluster_known_nodes:%d\r", len(c.all()))) &&
			!strings.Contains(fmt.Sprint(s.Do(t, "CLUSTER", "NODES")), "handshake")
	})
	for i, r := range c.Replicas {
		r.Do(t, "CLUSTER", "REPLICATE", id(t, c.Masters[i]))
	}
	c.await(t, "the cluster is whole", func(s *Server) bool {
		info := fmt.Sprint(s.Do(t, "CLUSTER", "INFO"))
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slotCount))
	})
	for _, r := range c.Replicas {
		awaitReplica(t, r)
	}
	return c
}

func (c *Nodes) all() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// Addrs are the addresses of all nodes.
func (c *Nodes) Addrs() []string {
	var addrs []string
	for _, s := range c.all() {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Slot is the slot that a key belongs to.
func (c *Nodes) Slot(t TB, key string) int {
	t.Helper()
	slot, _ := c.Masters[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Owner returns the master that has a slot now, and its place in Masters.
func (c *Nodes) Owner(t TB, slot int) (*Server, int) {
	t.Helper()
	for i, m := range c.Masters {
		if c.owns(t, m, m, slot) {
			return m, i
		}
	}
	t.Fatalf("testenv: no master has slot %d", slot)
	return nil, 0
}

// owns reports whether a slot is the owner's in the eyes of a node.
func (*Nodes) owns(t TB, eyes, owner *Server, slot int) bool {
	t.Helper()
	ranges, _ := eyes.Do(t, "CLUSTER", "SLOTS").([]any)
	for _, r := range ranges {
		r, _ := r.([]any)
		from, _ := r[0].(int64)
		to, _ := r[1].(int64)
		node, _ := r[2].([]any)
		if int64(slot) >= from && int64(slot) <= to && node[1] == int64(owner.port) {
			return true
		}
	}
	return false
}

// Move moves a slot with its keys to the master with that place in Masters, as resharding does, and returns how many keys moved.
func (c *Nodes) Move(t TB, slot, to int) (keys int) {
	t.Helper()
	source, _ := c.Owner(t, slot)
	target, s := c.Masters[to], strconv.Itoa(slot)
	target.Do(t, "CLUSTER", "SETSLOT", s, "IMPORTING", id(t, source))
	source.Do(t, "CLUSTER", "SETSLOT", s, "MIGRATING", id(t, target))
	for {
		list, _ := source.Do(t, "CLUSTER", "GETKEYSINSLOT", s, "100").([]any)
		if len(list) == 0 {
			break
		}
		for _, key := range list {
			reply := source.Do(t, "MIGRATE", "127.0.0.1", strconv.Itoa(target.port), fmt.Sprint(key), "0", "5000")
			if reply == "OK" {
				keys++
			}
		}
	}
	for _, m := range []*Server{target, source} {
		m.Do(t, "CLUSTER", "SETSLOT", s, "NODE", id(t, target))
	}
	c.await(t, "every node knows the slot's new master", func(s *Server) bool { return c.owns(t, s, target, slot) })
	return keys
}

// AwaitReplaced returns when the replica of a master that was killed has taken its place and the others have agreed.
func (c *Nodes) AwaitReplaced(t TB, master int) {
	t.Helper()
	replica := c.Replicas[master]
	for i, s := range c.all() {
		if i == master {
			continue
		}
		awaitServer(t, s, replica.Addr()+" is a master and the cluster is whole", func(s *Server) bool {
			return replica.Info(t, "replication")["role"] == "master" &&
				strings.Contains(fmt.Sprint(s.Do(t, "CLUSTER", "INFO")), "cluster_state:ok")
		})
	}
}

func (c *Nodes) await(t TB, what string, holds func(s *Server) bool) {
	t.Helper()
	for _, s := range c.all() {
		awaitServer(t, s, what, holds)
	}
}

// awaitServer asks a server until something holds that it tells nobody of.
func awaitServer(t TB, s *Server, what string, holds func(s *Server) bool) {
	t.Helper()
	for end := time.Now().Add(clusterLimit); !holds(s); {
		if time.Now().After(end) {
			t.Fatalf("testenv: redis-server at %s: after %v still not: %s", s.Addr(), clusterLimit, what)
		}
		<-time.After(clusterAsk)
	}
}

// awaitReplica returns when a replica has what its master has, and hears of what it gets.
func awaitReplica(t TB, r *Server) {
	t.Helper()
	awaitServer(t, r, "the replica is linked to its master", func(s *Server) bool {
		return s.Info(t, "replication")["master_link_status"] == "up"
	})
}

func id(t TB, s *Server) string { return fmt.Sprint(s.Do(t, "CLUSTER", "MYID")) }
