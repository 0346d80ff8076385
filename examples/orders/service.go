package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/redisstore"
)

// thinking is how long the shop thinks about a payment.
const thinking = time.Millisecond

// Service is the shop with both faces on their listeners. The faces have a store client and Locks each, as two processes
// would, so that what keeps them apart is the store.
type Service struct {
	Shop               *Shop
	HTTPAddr, GRPCAddr string

	cleanups []func() error // undone in reverse
}

// Open starts a service; guarded is false for the control.
func Open(ctx context.Context, guarded bool, httpAddr, grpcAddr string) (_ *Service, err error) {
	s := &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return os.RemoveAll(dir) })
	if s.Shop, err = openShop(ctx, filepath.Join(dir, "shop.db")); err != nil {
		return nil, err
	}
	s.onClose(s.Shop.db.Close)
	url, err := s.redisURL()
	if err != nil {
		return nil, err
	}
	var locks [2]*latchkey.Locks
	var m *latchkey.TxManager
	if guarded {
		m = latchkey.NewTxManager(s.Shop.db)
		for i := range locks {
			if locks[i], err = s.openLocks(url); err != nil {
				return nil, err
			}
		}
	}
	web, err := net.Listen("tcp", httpAddr)
	if err != nil {
		return nil, err
	}
	rpc, err := net.Listen("tcp", grpcAddr)
	if err != nil {
		return nil, errors.Join(err, web.Close())
	}
	s.HTTPAddr, s.GRPCAddr = web.Addr().String(), rpc.Addr().String()
	s.serve(web, rpc, locks, m)
	return s, nil
}

// serve has both faces listen until Close.
func (s *Service) serve(web, rpc net.Listener, locks [2]*latchkey.Locks, m *latchkey.TxManager) {
	httpServer := &http.Server{Handler: httpFace(s.Shop, locks[0], m, thinking), ReadHeaderTimeout: 10 * time.Second}
	grpcServer := grpcFace(s.Shop, locks[1], m, thinking)
	served := make(chan struct{}, 2)
	go func() { _ = httpServer.Serve(web); served <- struct{}{} }()
	go func() { _ = grpcServer.Serve(rpc); served <- struct{}{} }()
	s.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := httpServer.Shutdown(ctx)
		grpcServer.GracefulStop()
		<-served
		<-served
		return err
	})
}

// redisURL is that of REDIS_URL, or of a Redis that is started here.
func (s *Service) redisURL() (string, error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		return url, nil
	}
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // keys expire as time passes, as they do in a real Redis
	if err := server.Start(); err != nil {
		return "", err
	}
	s.onClose(func() error { server.Close(); return nil })
	return "redis://" + server.Addr(), nil
}

func (s *Service) openLocks(url string) (*latchkey.Locks, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	s.onClose(client.Close)
	locks := latchkey.New(redisstore.New(client), latchkey.Namespace("orders"))
	s.onClose(func() error { locks.Close(); return nil })
	return locks, nil
}

func (s *Service) onClose(f func() error) { s.cleanups = append(s.cleanups, f) }

// Close stops the service and removes what it left behind.
func (s *Service) Close() error {
	var errs []error
	for _, cleanup := range slices.Backward(s.cleanups) {
		errs = append(errs, cleanup())
	}
	s.cleanups = nil
	return errors.Join(errs...)
}
