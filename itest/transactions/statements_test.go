//go:build unix

package transactions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/memstore"
)

// Fencing costs one statement in each transaction and nothing else: no round trip to look, none to make sure. It comes right after BEGIN. The control
// is the transaction without it, which costs what one costs that is written by hand.
func TestFencingAddsOneStatement(t *testing.T) {
	const calls = 5
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			d := newDatabase(t, kind)
			seen := &statements{}
			db := seen.open(t, d)
			locks := latchkey.New(memstore.New())
			defer locks.Close()
			byHand := func(ctx context.Context, id string) error {
				tx, err := db.BeginTxx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if _, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = n + 1 WHERE id = ?"), id); err != nil {
					return err
				}
				return tx.Commit()
			}
			under := func(opts ...latchkey.TxManagerOption) func(context.Context, string) error {
				lock := locks.WithLock("account:#{param}", latchkey.Transactional(latchkey.NewTxManager(db, opts...)))
				return latchkey.Action(lock, func(ctx context.Context, id string) error {
					tx, _ := latchkey.TxFrom(ctx)
					_, err := tx.ExecContext(ctx, tx.Rebind("UPDATE account SET n = n + 1 WHERE id = ?"), id)
					return err
				})
			}
			plain := map[string]int{"BEGIN": calls, "UPDATE account": calls, "COMMIT": calls}
			fenced := maps.Clone(plain)
			fenced["INSERT INTO latchkey_fence"] = calls
			for _, c := range []struct {
				name string
				call func(context.Context, string) error
				want map[string]int
			}{
				{"by hand", byHand, plain},
				{"control: not fenced", under(), plain},
				{"fenced", under(latchkey.Fenced()), fenced},
			} {
				seen.reset()
				for range calls {
					if err := c.call(t.Context(), "a"); err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
				}
				got, order := seen.reset()
				if !maps.Equal(got, c.want) {
					t.Errorf("%s: %d calls took %v, want %v", c.name, calls, got, c.want)
				}
				first := []string{"BEGIN", "INSERT INTO latchkey_fence", "UPDATE account", "COMMIT"}
				if c.name != "fenced" {
					first = slices.Delete(first, 1, 2)
				}
				if want := slices.Repeat(first, calls); !slices.Equal(order, want) {
					t.Errorf("%s: the order is %v, want %v", c.name, order, want)
				}
			}
			if n := value(t, d.open(t, 1), "a"); n != 3*calls {
				t.Errorf("counted %d of %d", n, 3*calls)
			}
		})
	}
}

// statements notes what reaches a driver, by the first words of a statement.
type statements struct {
	mu     sync.Mutex
	counts map[string]int
	order  []string
}

func (s *statements) count(text string) {
	words := strings.Fields(text)
	n := min(len(words), 2)
	if n > 0 && strings.EqualFold(words[0], "INSERT") {
		n = min(len(words), 3)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	what := strings.Join(words[:n], " ")
	s.counts[what]++
	s.order = append(s.order, what)
}

// reset returns the counts and the order, and begins anew.
func (s *statements) reset() (counts map[string]int, order []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts, order = s.counts, s.order
	s.counts, s.order = make(map[string]int), nil
	return counts, order
}

// open connects through a driver that counts. The connections are the driver's own apart from that.
func (s *statements) open(t *testing.T, d database) *sqlx.DB {
	t.Helper()
	plain := d.open(t, 1) // only for its driver
	s.reset()
	db := sqlx.NewDb(sql.OpenDB(countingConnector{plain.Driver(), d.url, s}), d.driver)
	db.SetMaxOpenConns(2)
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	return db
}

type countingConnector struct {
	driver driver.Driver
	url    string
	seen   *statements
}

func (c countingConnector) Driver() driver.Driver { return c.driver }

func (c countingConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.url)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(wholeConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%T lacks a method", conn)
	}
	return countingConn{whole, c.seen}, nil
}

// wholeConn is what the drivers' connections can do.
type wholeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type countingConn struct {
	wholeConn

	seen *statements
}

func (c countingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.seen.count("BEGIN")
	tx, err := c.wholeConn.BeginTx(ctx, opts)
	return countingTx{tx, c.seen}, err
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.seen.count("PREPARE " + query)
	return c.wholeConn.PrepareContext(ctx, query)
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.seen.count(query)
	return c.wholeConn.ExecContext(ctx, query, args)
}

func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.seen.count(query)
	return c.wholeConn.QueryContext(ctx, query, args)
}

type countingTx struct {
	driver.Tx

	seen *statements
}

func (t countingTx) Commit() error {
	t.seen.count("COMMIT")
	return t.Tx.Commit()
}

func (t countingTx) Rollback() error {
	t.seen.count("ROLLBACK")
	return t.Tx.Rollback()
}
