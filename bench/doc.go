// Command bench measures latchkey beside its peers and beside floors that no library can go below, on one machine and
// in one run. Every claim about speed that the documentation makes is a row of its output.
//
//	make bench                                  # all tables; about ten minutes
//	go run ./bench -only uncontended,hot        # some of them
//	go run ./bench -rounds 15                   # more rounds, for a machine that others use too
//	go run ./bench -strict                      # exit code 1 if a target is missed
//	go run ./bench -profile /tmp/p -only hot    # CPU profiles of every contender, for go tool pprof
//
// It needs a redis-server in the PATH, or LATCHKEY_REDIS_SERVER, and PostgreSQL for one of the tables; it starts its own
// servers and processes and stops them.
//
// # How it measures
//
// What counts is a ratio to something measured in the same run, never a time alone: the time says more about the machine.
// Contenders take turns, A B C, A B C, …; a ratio is taken within each round, and the median of the rounds is
// printed with the quartiles in parentheses, or the lowest and the highest of a few. A load that comes and goes thus hits
// all alike, and a wide spread says that it was there. The load average is printed above each table.
//
// Each contender runs in a process of its own, with a client of its own; all clients have the same options. A process that
// is pinned was so before its runtime started, so GOMAXPROCS is the number of cores it really has. A core that was halted
// takes longer to wake than a command takes to run, which makes unpinned figures of one goroutine jump. Two settings
// do not:
//
//   - one core: client and server share it. It never halts, so the time is the CPU time of both.
//   - two cores: the client on one, the server on the other. The time is the latency that a caller sees.
//
// Throughput is measured unpinned.
//
// # The tables
//
//   - uncontended: one goroutine locks and unlocks free keys.
//   - throughput: 64 goroutines do.
//   - hot: 64 goroutines of one process want one key and do nothing with it.
//   - processes: 4 processes of 16 goroutines want one key and keep it for a millisecond.
//   - handover: how long from one process letting go until another, which waits, goes ahead.
//   - memstore: the decorator where the store costs nothing.
//   - keys: making the key.
//   - http: a request through httpmw, where the store costs nothing.
//   - transactions: a lock around a transaction, in PostgreSQL and SQLite, without a fence and with one.
//   - quorum: locks over five servers, while some of them are dead, paused or slow.
//   - held: thousands of leases that are only held.
//
// # The contenders
//
//   - raw: a connection and a byte slice, no client library. SET NX PX, then EVALSHA of compare-and-delete, as all others
//     here.
//   - by hand: the same over go-redis, written out for the one key. It is the floor that latchkey is held against.
//   - latchkey: a decorated function. Template, watchdog, queue, fresh owner and the context of the lease are
//     part of every figure; where it matters, rows say whether the decorator waits.
//   - redsync v4 with its go-redis pool, redislock: with the retry delay in the name. Both poll, and both get as many
//     tries as they like.
//   - mutex: a sync.Mutex.
//
// Jain's index says how evenly turns are spread: 1 if all had the same number, 1/n if one had them all.
package main
