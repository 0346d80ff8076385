//go:build unix

package transactions

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// liar stands between clients and a MariaDB server like ProxySQL or MaxScale, and answers COMMIT with an error of its own, as
// those do when they have lost the server.
type liar struct {
	ln      net.Listener
	target  string
	number  uint16
	forward bool // COMMIT reaches the server first
	armed   atomic.Bool
	told    atomic.Int64
	all     sync.WaitGroup
}

func newLiar(t *testing.T, target string, number uint16, forward bool) *liar {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{ln: ln, target: target, number: number, forward: forward}
	l.all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			l.all.Go(func() { l.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		l.all.Wait()
	})
	return l
}

func (l *liar) serve(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = client.Close()
		return
	}
	var lie atomic.Bool
	both := func() { _, _ = client.Close(), server.Close() }
	defer both()
	l.all.Go(func() {
		defer both()
		for buf := make([]byte, 64<<10); ; {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			answer := buf[:n]
			if lie.Swap(false) {
				answer = l.packet()
			}
			if _, err := client.Write(answer); err != nil {
				return
			}
		}
	})
	for buf := make([]byte, 64<<10); ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if contains(buf[:n], "COMMIT") && l.armed.Swap(false) {
			if !l.forward {
				if _, err := client.Write(l.packet()); err != nil {
					return
				}
				continue
			}
			lie.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// packet is an ERR packet of the MySQL protocol.
func (l *liar) packet() []byte {
	l.told.Add(1)
	body := append([]byte{0xff}, binary.LittleEndian.AppendUint16(nil, l.number)...)
	body = append(body, "#HY000Lost connection to backend server"...)
	return append([]byte{byte(len(body)), 0, 0, 1}, body...)
}

// An error packet for COMMIT that a proxy has made does not say that the transaction was rolled back.
func TestErrorOfAProxyForCommitIsNotARollback(t *testing.T) {
	d := newDatabase(t, "mariadb")
	direct := d.open(t, 0)
	direct.MustExec("CREATE TABLE ledger (id varchar(60) PRIMARY KEY)")
	const refused = 1213 // the control: a number that only a server gives
	for _, number := range []uint16{1105, 2006, 2013, 9001, refused} {
		for _, forward := range []bool{true, false} {
			if forward && number == refused {
				continue
			}
			for _, fenced := range []bool{true, false} {
				id := strconv.Itoa(int(number)) + strconv.FormatBool(forward) + strconv.FormatBool(fenced)
				l := newLiar(t, d.server.Addr(), number, forward)
				db := openURL(t, d.driver, d.server.URLAt(l.ln.Addr().(*net.TCPAddr).Port, d.name), 4)
				opts := []latchkey.TxManagerOption{latchkey.CommitTimeout(time.Second)}
				if fenced {
					opts = append(opts, latchkey.Fenced())
				}
				o, err := insertInto(t, latchkey.NewTxManager(db, opts...), l, id)
				if l.told.Load() != 1 {
					t.Fatalf("void: %d errors were told", l.told.Load())
				}
				var rows int
				if err := direct.Get(&rows, "SELECT count(*) FROM ledger WHERE id = ?", id); err != nil || (rows == 1) != forward {
					t.Fatalf("void: %d rows, %v", rows, err)
				}
				want := latchkey.OutcomeUnknown
				switch {
				case fenced && forward:
					want = latchkey.OutcomeCommitted
				case fenced, number == refused:
					want = latchkey.OutcomeRolledBack
				}
				if o != want || (err == nil) != (want == latchkey.OutcomeCommitted) ||
					errors.Is(err, latchkey.ErrOutcomeUnknown) != (want == latchkey.OutcomeUnknown) {
					t.Errorf("error %d, COMMIT forwarded: %v, fenced: %v: answered %v, outcome %v, want %v", number, forward, fenced, err, o, want)
				}
			}
		}
	}
}

// insertInto writes a row in a transaction whose COMMIT is lied about.
func insertInto(t *testing.T, m *latchkey.TxManager, l *liar, id string) (o latchkey.Outcome, err error) {
	t.Helper()
	locks := latchkey.New(memstore.New())
	defer locks.Close()
	err = latchkey.Action(locks.WithLock("k:#{param}", latchkey.Transactional(m)), func(ctx context.Context, id string) error {
		tx, _ := latchkey.TxFrom(ctx)
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?)", id)
		l.armed.Store(true)
		return errors.Join(err, latchkey.AfterCompletion(ctx, func(_ context.Context, got latchkey.Outcome) { o = got }))
	})(t.Context(), id)
	return o, err
}
