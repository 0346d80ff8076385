package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"
)

// saleArg makes the test binary a sale, run as main runs it.
const saleArg = "sale"

func sellAsProcess(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

// startSale starts a sale that won't end by itself soon, waits until it is on, and returns it with its standard error,
// which ends when the last process that can write to it, sale or shop, is gone.
func startSale(t *testing.T, temp string) (*exec.Cmd, io.Reader) {
	t.Helper()
	sale := exec.Command(os.Args[0], saleArg, "-buyers", "1000000")
	sale.Env = append(os.Environ(), "TMPDIR="+temp)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	sale.Stderr = write
	if err := sale.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sale.Process.Kill() })
	write.Close()

	stderr := bufio.NewReader(read)
	line, err := stderr.ReadString('\n')
	if err != nil || !strings.Contains(line, "buyers served") {
		t.Fatalf("no progress line but %q, %v", line, err)
	}
	return sale, stderr
}

// goneWithin fails the test unless all of the sale's processes are gone in time.
func goneWithin(t *testing.T, limit time.Duration, stderr io.Reader) {
	t.Helper()
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(stderr)
		said <- string(all)
	}()
	select {
	case text := <-said:
		t.Logf("said at the end:\n%s", text)
	case <-time.After(limit):
		t.Fatalf("processes are left after %v", limit)
	}
}

func TestShopsDoNotOutliveAKilledSale(t *testing.T) {
	sale, stderr := startSale(t, t.TempDir())
	if err := sale.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	goneWithin(t, 10*time.Second, stderr)
}

func TestInterruptLeavesNothingBehind(t *testing.T) {
	temp := t.TempDir()
	sale, stderr := startSale(t, temp)
	if err := sale.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	goneWithin(t, 20*time.Second, stderr)
	if err := sale.Wait(); err == nil || sale.ProcessState.ExitCode() != 1 {
		t.Errorf("an interrupted sale ends with %v, want exit status 1", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestAShopThatDiesByItselfIsReported(t *testing.T) {
	_, err := startShop(context.Background(), ShopConfig{Name: "shop 1", Guard: "prayer", DatabaseURL: t.TempDir() + "/shop.db"})
	if err == nil || !strings.Contains(err.Error(), "shop 1") {
		t.Errorf("got %v, want an error that names the shop", err)
	}
}
