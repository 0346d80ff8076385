// Package testenv runs the real servers and the separate processes that tests need, and leaves none of them behind.
//
// [Redis] starts a redis-server of a test's own on a free loopback port; [SharedRedis] starts one for the whole test
// binary. A [Server] can be paused, killed and restarted, and tells what it was asked. A [Proxy] in front of any server
// delays, cuts and swallows what passes, and sends it late. [Cluster] and [Sentinel] start several servers that belong
// together. [Postgres] and [MariaDB] start databases in the same way.
//
// [Child] runs a function of the test binary in a process of its own, so that a test can stop, kill and question it. The
// functions are listed once, in TestMain:
//
//	func TestMain(m *testing.M) {
//		testenv.Main(m, testenv.Children{"holder": holder})
//	}
//
// A program that is no test (a benchmark, an example) gets the same with [Program] in place of a *testing.T.
//
// Whatever is started ends with the test, by [testing.T.Cleanup]. Should the test binary itself be killed, Linux kills
// its servers and children with it; elsewhere they may be left over. Everything binds 127.0.0.1 only.
//
// A file per kind of server: redis.go is the pattern. Each one is a [Process] made by start, a readiness check that
// asks the server itself, and a Cleanup.
package testenv
