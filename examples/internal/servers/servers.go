// Package servers gives an example its Redis and its database: those of REDIS_URL and DATABASE_URL, or embedded ones.
package servers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
)

// Servers is the Redis and the database that all processes of a run share.
type Servers struct {
	Run         string // in the name of every key and table, so that runs share servers and nothing else
	RedisURL    string
	DatabaseURL string
	DB          *sqlx.DB

	cleanups []func() error // undone in reverse
}

// Open reaches the servers of REDIS_URL and DATABASE_URL and starts what is not given. The run's name begins with the
// example's.
func Open(ctx context.Context, example string) (_ *Servers, err error) {
	s := &Servers{
		Run: example + "_" + randomHex(), RedisURL: os.Getenv("REDIS_URL"), DatabaseURL: os.Getenv("DATABASE_URL"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openRedis(ctx); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := s.openDatabase(example); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return s, nil
}

// Close removes what the run left behind and stops what it started. It works after a Ctrl-C, too.
func (s *Servers) Close() error {
	var errs []error
	for _, cleanup := range slices.Backward(s.cleanups) {
		errs = append(errs, cleanup())
	}
	s.cleanups = nil
	return errors.Join(errs...)
}

// OnClose has Close call f before whatever was opened so far is closed.
func (s *Servers) OnClose(f func() error) { s.cleanups = append(s.cleanups, f) }

func (s *Servers) openRedis(ctx context.Context) error {
	if s.RedisURL == "" {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // keys expire as time passes, as they do in a real Redis
		if err := server.Start(); err != nil {
			return err
		}
		s.OnClose(func() error { server.Close(); return nil })
		s.RedisURL = "redis://" + server.Addr()
		return nil
	}
	rdb, err := DialRedis(s.RedisURL)
	if err != nil {
		return err
	}
	s.OnClose(rdb.Close)
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	s.OnClose(func() error { return deleteKeys(rdb, "*"+s.Run+"*") })
	return nil
}

func (s *Servers) openDatabase(example string) (err error) {
	if s.DatabaseURL == "" {
		dir, err := os.MkdirTemp("", example+"-")
		if err != nil {
			return err
		}
		s.OnClose(func() error { return os.RemoveAll(dir) })
		s.DatabaseURL = filepath.Join(dir, example+".db")
	}
	if s.DB, err = OpenDatabase(s.DatabaseURL); err != nil {
		return err
	}
	s.OnClose(s.DB.Close)
	return nil
}

// DialRedis makes a client for redis://…
func DialRedis(url string) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func deleteKeys(rdb redis.UniversalClient, pattern string) error {
	ctx, cancel := CleanupContext()
	defer cancel()
	keys := rdb.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if err := rdb.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// CleanupContext does not descend from the run's context: cleaning up is what is left to do when that one has ended.
func CleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

func randomHex() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
