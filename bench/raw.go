package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
)

// rawConn speaks just enough of Redis's protocol to lock and unlock, from one goroutine.
type rawConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// raw locks without a client library: the floor of what the server, the kernel and Go's network cost.
func raw(addr string) (locked, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &rawConn{conn: conn, in: bufio.NewReader(conn)}
	sha, err := c.load(compareAndDelete)
	if err != nil {
		return nil, err
	}
	ms := strconv.FormatInt(leaseTime.Milliseconds(), 10)
	return func(_ context.Context, id int64, v *visit) error {
		key := make([]byte, 0, 40)
		key = strconv.AppendInt(append(key, "latchkey:order:"...), id, 10)
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		var owner [32]byte
		hex.Encode(owner[:], random[:])

		c.begin(6)
		c.arg("SET").bytes(key).bytes(owner[:]).arg("NX").arg("PX").arg(ms)
		if err := c.expect("+OK"); err != nil {
			return err
		}
		v.run()
		c.begin(5)
		c.arg("EVALSHA").arg(sha).arg("1").bytes(key).bytes(owner[:])
		return c.expect(":1")
	}, nil
}

func (c *rawConn) load(script string) (sha string, err error) {
	c.begin(3)
	c.arg("SCRIPT").arg("LOAD").arg(script)
	if err := c.expect("$40"); err != nil {
		return "", err
	}
	line, err := c.line()
	return string(line), err
}

func (c *rawConn) begin(args int64) {
	c.out = append(strconv.AppendInt(append(c.out[:0], '*'), args, 10), "\r\n"...)
}

func (c *rawConn) arg(s string) *rawConn {
	c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(s)), 10), "\r\n"...)
	c.out = append(append(c.out, s...), "\r\n"...)
	return c
}

func (c *rawConn) bytes(s []byte) *rawConn {
	c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(s)), 10), "\r\n"...)
	c.out = append(append(c.out, s...), "\r\n"...)
	return c
}

// expect sends the command and reads one line of the reply.
func (c *rawConn) expect(want string) error {
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	line, err := c.line()
	if err == nil && string(line) != want {
		err = fmt.Errorf("redis answered %q instead of %q", line, want)
	}
	return err
}

func (c *rawConn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return line[:len(line)-2], nil
}
