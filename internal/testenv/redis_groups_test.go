//go:build unix

package testenv_test

import (
	"testing"

	"github.com/latchkey-go/latchkey/internal/testenv"
)

func TestClusterMovesASlotWithItsKeys(t *testing.T) {
	c := testenv.Cluster(t, 3, false)
	slot := c.Slot(t, "k")
	from, place := c.Owner(t, slot)
	from.Do(t, "SET", "k", "v")
	to := (place + 1) % 3
	if n := c.Move(t, slot, to); n != 1 {
		t.Errorf("%d keys moved, want 1", n)
	}
	if v := c.Masters[to].Do(t, "GET", "k"); v != "v" {
		t.Errorf("the new master has %v", v)
	}
	if now, _ := c.Owner(t, slot); now == from {
		t.Error("the slot is where it was")
	}
}

func TestClusterReplacesAMaster(t *testing.T) {
	c := testenv.Cluster(t, 3, true)
	slot := c.Slot(t, "k")
	from, place := c.Owner(t, slot)
	from.Do(t, "SET", "k", "v")
	from.Do(t, "WAIT", "1", "1000")
	from.Kill(t)
	c.AwaitReplaced(t, place)
	if v := c.Replicas[place].Do(t, "GET", "k"); v != "v" {
		t.Errorf("the new master has %v", v)
	}
}

func TestSentinelReplacesTheMaster(t *testing.T) {
	w := testenv.Sentinel(t)
	w.AwaitMaster(t, w.Master)
	w.Master.Do(t, "SET", "k", "v")
	w.Master.Do(t, "WAIT", "1", "1000")
	w.Master.Kill(t)
	w.AwaitMaster(t, w.Replica)
	if v := w.Replica.Do(t, "GET", "k"); v != "v" {
		t.Errorf("the new master has %v", v)
	}
}
