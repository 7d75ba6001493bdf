// Command etcd runs a cluster of etcd's Raft, without any I/O, and obeys commands: one JSON object a line on stdin, one answer a
// line on stdout. It is a judge of impl/raft: the same commands go to both, and the states are compared.
//
//	{"op":"new","nodes":3,"preVote":false,"checkQuorum":false}
//	{"op":"campaign","id":1} {"op":"propose","id":1,"data":"x"} {"op":"tick","id":1} {"op":"read","id":1,"data":"r1"}
//	{"op":"transfer","id":1,"to":2} {"op":"restart","id":1} {"op":"compact","id":1}
//	{"op":"exchange","parts":[[1,2],[3]]}   messages flow within each part until it is quiet; all others are lost
//
// Nothing here depends on time or chance: no election begins by itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

const never = 1 << 20 // ticks until an election begins by itself

type command struct {
	Op          string
	ID, To      uint64
	Nodes       int
	PreVote     bool
	CheckQuorum bool
	Data        string
	Parts       [][]uint64
}

type entry struct {
	Term uint64 `json:"term"`
	Data string `json:"data"`
}

type status struct {
	ID      uint64  `json:"id"`
	Term    uint64  `json:"term"`
	Vote    uint64  `json:"vote"`
	Commit  uint64  `json:"commit"`
	Lead    uint64  `json:"lead"`
	Role    string  `json:"role"`
	Base    uint64  `json:"base"`
	Entries []entry `json:"entries"`
}

type answer struct {
	Error string            `json:"error,omitempty"`
	Nodes []status          `json:"nodes"`
	Reads map[string]uint64 `json:"reads"`
}

type node struct {
	raw     *raft.RawNode
	storage *raft.MemoryStorage
	applied uint64
}

type cluster struct {
	nodes    []*node
	conf     *pb.ConfState
	first    command
	messages []*pb.Message
	reads    map[string]uint64
}

func start(first command) *cluster {
	c := &cluster{first: first, conf: &pb.ConfState{}, reads: map[string]uint64{}}
	for id := 1; id <= first.Nodes; id++ {
		c.conf.Voters = append(c.conf.Voters, uint64(id))
	}
	for id := 1; id <= first.Nodes; id++ {
		storage := raft.NewMemoryStorage()
		must(storage.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: c.conf, Index: new(uint64(0)), Term: new(uint64(0))}}))
		n := &node{storage: storage}
		c.nodes = append(c.nodes, n)
		c.open(uint64(id))
	}
	return c
}

func (c *cluster) open(id uint64) {
	n := c.nodes[id-1]
	snapshot, err := n.storage.Snapshot()
	must(err)
	n.applied = snapshot.GetMetadata().GetIndex()
	n.raw, err = raft.NewRawNode(&raft.Config{ID: id, ElectionTick: never, HeartbeatTick: 1, Storage: n.storage,
		Applied: n.applied, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256, PreVote: c.first.PreVote,
		CheckQuorum: c.first.CheckQuorum, Logger: &raft.DefaultLogger{Logger: silent}})
	must(err)
}

// settle makes all that a node has to say durable, and collects its messages.
func (c *cluster) settle(n *node) bool {
	moved := false
	for n.raw.HasReady() {
		moved = true
		ready := n.raw.Ready()
		if !raft.IsEmptySnap(ready.Snapshot) {
			must(n.storage.ApplySnapshot(ready.Snapshot))
			n.applied = ready.Snapshot.GetMetadata().GetIndex()
		}
		must(n.storage.Append(ready.Entries))
		if !raft.IsEmptyHardState(ready.HardState) {
			must(n.storage.SetHardState(ready.HardState))
		}
		for _, read := range ready.ReadStates {
			c.reads[string(read.RequestCtx)] = read.Index
		}
		for _, committed := range ready.CommittedEntries {
			n.applied = committed.GetIndex()
		}
		c.messages = append(c.messages, ready.Messages...)
		n.raw.Advance(ready)
	}
	return moved
}

func (c *cluster) exchange(parts [][]uint64) {
	part := map[uint64]int{}
	for number, ids := range parts {
		for _, id := range ids {
			part[id] = number + 1
		}
	}
	for {
		moved := false
		for _, n := range c.nodes {
			moved = c.settle(n) || moved
		}
		messages := c.messages
		c.messages = nil
		if len(messages) == 0 && !moved {
			return
		}
		for _, m := range messages {
			arrives := part[m.GetFrom()] != 0 && part[m.GetFrom()] == part[m.GetTo()]
			if m.GetType() == pb.MsgSnap {
				outcome := raft.SnapshotFailure
				if arrives {
					outcome = raft.SnapshotFinish
				}
				c.nodes[m.GetFrom()-1].raw.ReportSnapshot(m.GetTo(), outcome)
			}
			if arrives {
				_ = c.nodes[m.GetTo()-1].raw.Step(m) // an error says that the message is dropped
			}
		}
	}
}

func (c *cluster) do(cmd command) error {
	if cmd.Op == "exchange" {
		c.exchange(cmd.Parts)
		return nil
	}
	n := c.nodes[cmd.ID-1]
	var err error
	switch cmd.Op {
	case "campaign":
		err = n.raw.Campaign()
	case "propose":
		err = n.raw.Propose([]byte(cmd.Data))
	case "tick":
		n.raw.Tick()
	case "read":
		n.raw.ReadIndex([]byte(cmd.Data))
	case "transfer":
		n.raw.TransferLeader(cmd.To)
	case "restart":
		c.settle(n)
		c.open(cmd.ID)
	case "compact":
		c.settle(n)
		if _, err = n.storage.CreateSnapshot(n.applied, c.conf, nil); err == nil {
			err = n.storage.Compact(n.applied)
		}
	default:
		err = fmt.Errorf("unknown op %q", cmd.Op)
	}
	return err
}

func (c *cluster) status() []status {
	found := []status{}
	for _, n := range c.nodes {
		s := n.raw.BasicStatus()
		first, err := n.storage.FirstIndex()
		must(err)
		last, err := n.storage.LastIndex()
		must(err)
		entries := []entry{}
		if last >= first {
			stored, err := n.storage.Entries(first, last+1, 1<<40)
			must(err)
			for _, e := range stored {
				entries = append(entries, entry{e.GetTerm(), string(e.GetData())})
			}
		}
		found = append(found, status{s.ID, s.HardState.GetTerm(), s.HardState.GetVote(), s.HardState.GetCommit(), s.Lead,
			s.RaftState.String(), first - 1, entries})
	}
	return found
}

func main() {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	var c *cluster
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		must(err)
		var cmd command
		must(json.Unmarshal(line, &cmd))
		var said answer
		if cmd.Op == "new" {
			c = start(cmd)
		} else if err := c.do(cmd); err != nil {
			said.Error = err.Error()
		}
		said.Nodes, said.Reads = c.status(), c.reads
		must(out.Encode(said))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
