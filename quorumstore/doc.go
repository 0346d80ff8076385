// Package quorumstore keeps locks in a majority of independent Redis masters, so that they outlive the loss of any
// minority of them. It is Redlock, with [redsync] as its engine.
//
// Three or five Redis or Valkey servers (5 or later), none of which replicates to another, each have a vote. Whoever has
// the votes of a majority has the lock. What makes a lock of it that one works with (waiting, the watchdog, the loss
// signal, re-entrancy, hand-over within the process) is latchkey's, the same as over every other store.
//
// # What it promises
//
// While clocks run at about the same speed, and masters that lose their data stay away for the length of a lease, at most
// one caller holds a lock at a time, and a minority of masters may be dead, paused or slow without anybody noticing. A
// lease is counted from before the first request for a vote was sent, less one hundredth for clocks that run apart, so the
// time that it took to collect the votes is not counted twice; renewal needs a majority too.
//
// Without a majority there is no lock: the answer is [latchkey.ErrStore], within one op timeout, with a [NoQuorumError] that
// names the masters that did not answer.
//
// # What it does not promise
//
// [Redlock] is a matter of timing, and its [critics] are right that timing is no proof: a process that stands still
// between two looks at its context goes on as if it had the lock, a clock that is set forward ends leases early, and a master
// that restarts without its data may vote a second time. Particularly:
//
//   - A master that forgets its vote while it is one of a bare majority lets a second holder in. The first one hears of it
//     at its next renewal, a third of the lease at the latest; with [latchkey.LeaseFor], which is never renewed, when the
//     lease ends. If more masters than a majority had the vote nothing happens, and the next renewal gives the vote back.
//     Configure "appendonly yes" and "appendfsync always", or keep a master that crashed away for the length of the longest
//     lease, which is 30 seconds unless set otherwise.
//   - Everything that must not happen twice needs fencing tokens, here as over any store of locks.
//
// # Tokens
//
// [latchkey.Lease.Token] asks a majority for the last token that they know, takes the next one, and writes it back to a
// majority. In both rounds each master confirms that the lock is the owner's. Two majorities share a master, so a later
// holder's token is larger, as long as that master remembers: its data, or a clock that was not set back. Tokens follow the
// clock in microseconds, so that masters which are all restarted empty go on above the old tokens, if their clocks agree.
// If a majority loses the counters and the clocks of the rest are behind, a token may be repeated: the table that the tokens
// fence refuses one that is smaller, but can't tell two equal ones apart.
//
// # Waiting
//
// A waiter leaves its place with every master that refused it. A release tells the first in each master's queue to ask
// again, and so the message of any one master wakes. It is a hint, not a grant: no single server decides who is next, and
// fairness between processes is that of a crowd which is let in one by one. Votes that are split between callers who ask
// at the same moment are taken back and repeated after a random pause, within the same request. Waiters poll twice a second
// in case hints are lost.
//
// # What is redsync's and what is not
//
// Each acquire, renewal and release is one call of a redsync Mutex (TryLock, Extend, Unlock, with FailFast), which asks all
// masters at once, counts the votes, answers as soon as a majority has, and takes votes back that were not enough. The
// pool between it and the masters is latchkey's, and makes up for what redsync leaves open:
//
//   - asking again with the same owner says yes (redsync's SET NX refuses its own owner after a lost reply);
//   - a master that has failed or was slow is left out, looked at in the background, and asked only when the others are too
//     few (redsync's calls wait for it, or leave its stragglers running); see [MasterTimeout] and [Store.OutOfService];
//   - what a straggler may still do is accounted for: a release waits for the answer to the request before it, a vote whose
//     answer never came is taken back, and its late copies are barred until the lease would have ended, on each master as
//     soon as it answers again;
//   - the caller's context ends the caller's wait and nothing else (redsync runs its clean-up on the dead context and leaves
//     the key);
//   - releases hint; renewal never takes a key that somebody else had in between (SetNXOnExtend is not used); an empty owner
//     owns nothing; every lease has an expiry, of a millisecond at least.
//
// redsync's judgement of how long a lock is valid is not used, since latchkey counts from an earlier moment. Tokens are
// minted past redsync, which has nothing like them. Several keys are taken one after the other.
//
// A lock is a string key with an expiry, its value the owner, a dot and a number, so that redsync by itself, or any SET NX,
// is refused while it is held and refuses in turn. Beside it there may be "{key}:q" (who queues), "{key}:t" (the last token)
// and "{key}:x" (what is barred). All go away by themselves.
//
// [Redlock]: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
// [critics]: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
// [redsync]: https://github.com/go-redsync/redsync
package quorumstore
