// Package grpcmw runs gRPC methods under a distributed lock whose key comes from the request.
//
//	grpc.NewServer(grpcmw.ServerOptions(locks,
//		grpcmw.Method(shoppb.Orders_Reserve_FullMethodName, "sku:#{req.sku}", latchkey.Wait(3*time.Second)))...)
//
// [ServerOptions] covers unary methods and streams. An interceptor of one kind never sees the other: one that is made alone
// refuses rules for the other kind, and [RuleSet.Check] tells of a kind that the server lacks.
//
// Rules in code name a method ([Method]), all methods of a service ([Service]) or every method ([Default]); rules in the
// .proto file are options of the method, put into force by [FromAnnotations]:
//
//	option (latchkey.v1.lock) = { key: "sku:#{req.sku}" wait: "3s" };
//
// The most specific rule counts: Method, then annotation, then Service, then Default. Methods without a rule run without
// a lock, as do gRPC's own services for health checks and reflection under any rule that does not name them. Templates are
// compiled against the descriptor of the method's request when the server is made: a field that does not exist fails there.
//
// # Names in the key template
//
//	req.order_id      a field, by its name in the .proto file, in JSON or in Go: order_id, orderId, OrderId
//	req.customer.id   nested messages; fields of a oneof directly; maps by key
//	req.status        an enum, by the name of its value
//	req.items         a repeated field makes one lock for each element: #{map(req.items, .sku)}
//	md["x-tenant"]    metadata
//	method            the full name: /shop.v1.Orders/Reserve; #{fn} is the same
//
// google.protobuf wrappers stand for what they wrap, Timestamp for a time, Duration for a duration. A field with presence
// that is not set (message, optional, oneof), empty text, an empty list and metadata that is not there, or there several
// times with different values, are errors: the method does not run. Numbers and enums without presence are 0 if they are
// not set, as the method sees them.
//
// # What the caller gets
//
//	lock busy               Aborted, ErrorInfo LOCK_BUSY, RetryInfo
//	no key in the request   InvalidArgument, ErrorInfo LOCK_KEY_MISSING, BadRequest with the field
//	store down              Unavailable, ErrorInfo LOCK_STORE_UNAVAILABLE
//	lease lost, work done   Unknown, ErrorInfo LEASE_LOST
//	lease lost, rolled back Aborted, ErrorInfo LEASE_LOST (latchkey.Transactional; also when fenced off)
//	COMMIT refused          Internal, ErrorInfo ROLLED_BACK
//	outcome unknown         Unknown, ErrorInfo OUTCOME_UNKNOWN
//	caller gone             Canceled or DeadlineExceeded, unless a busy lock was seen
//
// No status contains the key or what a backend said. [BusyCode] and [OnError] change them. A method that did not get its
// lock has not run, so that Aborted is safe to retry: a client's retryPolicy with ABORTED does.
//
// # Streams
//
// A stream has no request until its first message, so it is locked when the handler receives that; until then
// the handler runs without the lock. In a method that streams only to the client the generated code receives before the
// handler runs. The stream's context carries the lease from then on, and ends when it is lost. If there is no
// lock, every later Send and Recv fails, and the status tells why whatever the handler returns. So it is when the first
// message can't be received: none that follows would have the lock. The lock is released when the handler is over.
package grpcmw
