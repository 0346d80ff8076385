package main

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
	"github.com/redis/go-redis/v9"
)

// Backend is the Redis and the database that all the shops of a run share: real ones, or ones the program brings.
type Backend struct {
	Run         string // in the name of every key and table, so that runs share servers and nothing else
	RedisURL    string
	DatabaseURL string
	Ledger      *Ledger

	cleanups []func() error // undone in reverse
}

// openBackend reaches the servers of REDIS_URL and DATABASE_URL, starts what is not given, and makes the tables.
func openBackend(ctx context.Context) (_ *Backend, err error) {
	b := &Backend{Run: "seckill_" + randomHex(), RedisURL: os.Getenv("REDIS_URL"), DatabaseURL: os.Getenv("DATABASE_URL")}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := b.openRedis(ctx); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := b.openDatabase(ctx); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return b, nil
}

// Close removes what the run left behind and stops what it started. It works after a Ctrl-C, too.
func (b *Backend) Close() error {
	var errs []error
	for _, cleanup := range slices.Backward(b.cleanups) {
		errs = append(errs, cleanup())
	}
	b.cleanups = nil
	return errors.Join(errs...)
}

func (b *Backend) onClose(f func() error) { b.cleanups = append(b.cleanups, f) }

func (b *Backend) openRedis(ctx context.Context) error {
	if b.RedisURL == "" {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true) // keys expire as time passes, as they do in a real Redis
		if err := server.Start(); err != nil {
			return err
		}
		b.onClose(func() error { server.Close(); return nil })
		b.RedisURL = "redis://" + server.Addr()
		return nil
	}
	rdb, err := dialRedis(b.RedisURL)
	if err != nil {
		return err
	}
	b.onClose(rdb.Close)
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	b.onClose(func() error { return deleteKeys(rdb, "*"+b.Run+"*") })
	return nil
}

func (b *Backend) openDatabase(ctx context.Context) (err error) {
	if b.DatabaseURL == "" {
		dir, err := os.MkdirTemp("", "seckill-")
		if err != nil {
			return err
		}
		b.onClose(func() error { return os.RemoveAll(dir) })
		b.DatabaseURL = filepath.Join(dir, "shop.db")
	}
	if b.Ledger, err = openLedger(b.DatabaseURL, b.Run); err != nil {
		return err
	}
	b.onClose(b.Ledger.Close)
	b.onClose(func() error {
		ctx, cancel := cleanupContext()
		defer cancel()
		return b.Ledger.Drop(ctx)
	})
	return b.Ledger.Create(ctx)
}

func dialRedis(url string) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func deleteKeys(rdb redis.UniversalClient, pattern string) error {
	ctx, cancel := cleanupContext()
	defer cancel()
	keys := rdb.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if err := rdb.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// cleanupContext does not descend from the run's context: cleaning up is what is left to do when that one has ended.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

func randomHex() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
