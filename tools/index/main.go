// A client made of Pyroscope's published API, for tests/interop/test_interop_index.py: what it asks of an index, and how it reads
// the answers, is theirs. Each line of stdin is a call, {"method": name, "request": message as protobuf's JSON}; each line of
// stdout is {"answer": message} or {"code": name, "text": reason}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	metastorev1 "github.com/grafana/pyroscope/api/gen/proto/go/metastore/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

type call struct {
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
}

type result struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	Code   string          `json:"code,omitempty"`
	Text   string          `json:"text,omitempty"`
}

// method reads a request and sends it by the client's own method.
type method func(context.Context, []byte) (proto.Message, error)

func of[Q any, P interface {
	*Q
	proto.Message
}, A proto.Message](send func(context.Context, P, ...grpc.CallOption) (A, error)) method {
	return func(ctx context.Context, body []byte) (proto.Message, error) {
		request := P(new(Q))
		if err := protojson.Unmarshal(body, request); err != nil {
			log.Fatal(err)
		}
		return send(ctx, request)
	}
}

func methods(connection *grpc.ClientConn) map[string]method {
	blocks := metastorev1.NewIndexServiceClient(connection)
	jobs := metastorev1.NewCompactionServiceClient(connection)
	queries := metastorev1.NewMetadataQueryServiceClient(connection)
	tenants := metastorev1.NewTenantServiceClient(connection)
	return map[string]method{
		"AddBlock":            of(blocks.AddBlock),
		"GetBlockMetadata":    of(blocks.GetBlockMetadata),
		"PollCompactionJobs":  of(jobs.PollCompactionJobs),
		"QueryMetadata":       of(queries.QueryMetadata),
		"QueryMetadataLabels": of(queries.QueryMetadataLabels),
		"GetTenants":          of(tenants.GetTenants),
		"GetTenant":           of(tenants.GetTenant),
		"DeleteTenant":        of(tenants.DeleteTenant),
	}
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	known, out := methods(connection), json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	for in.Scan() {
		var c call
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		answer, err := known[c.Method](ctx, c.Request)
		cancel()
		r := result{}
		if err != nil {
			r.Code, r.Text = status.Code(err).String(), status.Convert(err).Message()
		} else if r.Answer, err = protojson.Marshal(answer); err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(r); err != nil {
			log.Fatal(err)
		}
	}
}
