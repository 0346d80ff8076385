package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const replyLimit = 10 * time.Second // for one housekeeping command to a server on this machine

// replyError is an error that the server answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

// ask sends one command on a connection of its own and returns the reply: string, int64, nil or []any of these.
func ask(addr, password string, args ...string) (any, error) {
	conn, err := net.DialTimeout("tcp", addr, replyLimit)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the reply has been read; nothing depends on the close
	if err := conn.SetDeadline(time.Now().Add(replyLimit)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	if password != "" {
		if _, err := roundTrip(conn, r, "AUTH", password); err != nil {
			return nil, err
		}
	}
	return roundTrip(conn, r, args...)
}

func roundTrip(w io.Writer, r *bufio.Reader, args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return nil, err
	}
	reply, err := readReply(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return reply, nil
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line where a reply should start")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, replyError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil // a reply as well: no such key
	case kind == '$':
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("reply of an unknown kind: %q", line)
}
