// Command traced runs a cluster of etcd's Raft under drawn faults, and writes its trace to stdout, one JSON object a line.
//
//	go build -tags with_tla ./traced
//	traced -seed 7 -nodes 3 -steps 400 [-prevote] [-checkquorum]
//
// A line with the tag "trace" is etcd's own: what its TraceLogger is given. That shows a server's memory, and not its disk, so
// the host of the servers adds lines with the tag "host": what it gave to a server, what became durable, and which messages
// left. Equal seeds write equal lines: no election begins by itself.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"log"
	"math/rand"
	"os"

	"go.etcd.io/raft/v3"
)

type line struct {
	Tag   string `json:"tag"`
	Event any    `json:"event"`
}

// tracer writes the lines of all servers in the order of their events.
type tracer struct{ out *json.Encoder }

func (t *tracer) TraceEvent(e *raft.TracingEvent) { must(t.out.Encode(line{"trace", e})) }
func (t *tracer) host(e hostEvent)                { must(t.out.Encode(line{"host", e})) }

var silent = log.New(io.Discard, "", 0)

func main() {
	seed := flag.Int64("seed", 0, "the seed of all that is drawn")
	nodes := flag.Int("nodes", 3, "servers")
	steps := flag.Int("steps", 400, "drawn steps")
	preVote := flag.Bool("prevote", false, "servers ask before they stand for election")
	checkQuorum := flag.Bool("checkquorum", false, "a leader that hears of no quorum steps down")
	flag.Parse()
	if !raft.StateTraceDeployed {
		log.Fatal("built without its trace: use -tags with_tla")
	}
	buffered := bufio.NewWriter(os.Stdout)
	defer buffered.Flush()
	random := rand.New(rand.NewSource(*seed))
	c := start(&tracer{json.NewEncoder(buffered)}, random, *nodes, *preVote, *checkQuorum)
	for range *steps {
		c.step()
	}
	c.end()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
