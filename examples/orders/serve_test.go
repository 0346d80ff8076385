package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// served is the service as -serve has it, on ports of its own.
type served struct {
	printed    string
	http, grpc string // addresses
	conn       *grpc.ClientConn
}

func serve(t *testing.T) *served {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, printed := io.Pipe()
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"-serve", "-http", "127.0.0.1:0", "-grpc", "127.0.0.1:0"}, printed, io.Discard)
		printed.Close()
	}()
	text := make([]byte, 4096)
	n, _ := out.Read(text)
	go io.Copy(io.Discard, out)
	s := &served{printed: string(text[:n])}
	s.http, _, _ = strings.Cut(after(s.printed, "http://"), "/")
	s.grpc, _, _ = strings.Cut(after(s.printed, "}' "), " ")
	var err error
	if s.conn, err = grpc.NewClient("passthrough:///"+s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.conn.Close()
		http.DefaultClient.CloseIdleConnections()
		stop()
		if c := <-code; c != 0 {
			t.Errorf("exit code %d", c)
		}
	})
	return s
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// linesOf returns the curl and grpcurl lines of a text.
func linesOf(text, prompt string) (lines []string) {
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prompt)
		if ok && (strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "grpcurl ")) {
			lines = append(lines, line)
		}
	}
	return lines
}

// do does what a line says and returns a word about the answer, and its body.
func (s *served) do(t *testing.T, line string) (word, body string) {
	t.Helper()
	data, _, _ := strings.Cut(after(line, "-d '"), "'")
	if rest, ok := strings.CutPrefix(line, "grpcurl -plaintext -d '"+data+"' "+s.grpc+" "); ok {
		return s.call(t, t.Context(), rest, data)
	}
	rest, ok := strings.CutPrefix(line, "curl -i ")
	if !ok {
		t.Fatalf("what is %q?", line)
	}
	method, path := http.MethodGet, after(rest, "http://"+s.http)
	if rest, ok := strings.CutPrefix(rest, "-X POST "); ok {
		method, path = http.MethodPost, after(rest, "http://"+s.http)
	}
	path, _, _ = strings.Cut(path, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.http+path, strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusConflict && resp.Header.Get("Retry-After") == "" {
		t.Error("409 without Retry-After")
	}
	return resp.Status, strings.TrimSpace(string(text))
}

// call does what grpcurl does: it knows of the service what reflection says.
//
//nolint:revive // a test comes first
func (s *served) call(t *testing.T, ctx context.Context, method, data string) (word, body string) {
	t.Helper()
	service, name, _ := strings.Cut(method, "/")
	stream, err := reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: ask}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.CloseSend()
	set := &descriptorpb.FileDescriptorSet{}
	for _, raw := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			t.Fatal(err)
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	m := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := protojson.Unmarshal([]byte(data), in); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Invoke(ctx, "/"+method, in, out); err != nil {
		return status.Code(err).String(), status.Convert(err).Message()
	}
	return codes.OK.String(), strings.Join(strings.Fields(protojson.Format(out)), "")
}

// The lines in the README are those that -serve prints, and do what the README says. They are not run by curl and grpcurl,
// which a machine that tests may not have: do reads them.
func TestServeAnswersTheLinesOfTheReadme(t *testing.T) {
	s := serve(t)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := linesOf(string(readme), "$ ")
	printed := linesOf(s.printed, "  ")
	if len(lines) != 5 || len(printed) != len(lines) {
		t.Fatalf("README:\n%s\nprinted:\n%s", strings.Join(lines, "\n"), strings.Join(printed, "\n"))
	}
	addrs := strings.NewReplacer("127.0.0.1:8080", s.http, "127.0.0.1:9090", s.grpc)
	for i, line := range lines {
		if printed[i] != addrs.Replace(line) {
			t.Errorf("README: %s\nprinted: %s", line, printed[i])
		}
	}
	// A little less than in the README, and longer than the five seconds that the others wait.
	lines[0] = strings.Replace(lines[0], "10s", "8s", 1)
	type answer struct{ word, body string }
	first, second, third := make(chan answer, 1), make(chan answer, 1), make(chan answer, 1)
	in := func(line string, to chan answer) {
		word, body := s.do(t, addrs.Replace(line))
		to <- answer{word, body}
	}
	go in(lines[0], first)
	// Until the first one has the lock a payment of nothing gets through, and the shop refuses it at once.
	for word := "FailedPrecondition"; word == "FailedPrecondition"; {
		select {
		case got := <-first:
			t.Fatalf("void: the first line was done, with %v, and nobody had to wait for it", got)
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		word, _ = s.call(t, ctx, "orders.v1.Orders/Pay", `{"order_id": "1", "amount": 0}`)
		cancel()
		if word != "FailedPrecondition" && word != "DeadlineExceeded" && word != "Aborted" {
			t.Fatalf("a payment of nothing: %s", word)
		}
	}
	go in(lines[1], second)
	go in(lines[2], third)
	if got := <-second; got.word != "409 Conflict" || !strings.Contains(got.body, "LOCK_BUSY") {
		t.Errorf("the second line: %v", got)
	}
	if got := <-third; got.word != "Aborted" || got.body != "somebody else is at work on this" {
		t.Errorf("the third line: %v", got)
	}
	if got := <-first; got.word != "200 OK" || got.body != `{"order_id":"1","total":100,"paid":3}` {
		t.Errorf("the first line: %v", got)
	}
	if word, body := s.do(t, addrs.Replace(lines[3])); word != "200 OK" || body != `{"order_id":"1","total":100,"paid":3}` {
		t.Errorf("the fourth line: %s %s", word, body)
	}
	if word, body := s.do(t, addrs.Replace(lines[4])); word != "OK" || !strings.Contains(body, `"paid":"3"`) {
		t.Errorf("the fifth line: %s %s", word, body)
	}
}
