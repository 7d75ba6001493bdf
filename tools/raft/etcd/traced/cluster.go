package main

import (
	"math/rand"
	"strconv"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

const electionTicks = 8 // servers that do not lead get no ticks, so only a leader's check of its quorum depends on it

type node struct {
	id      uint64
	raw     *raft.RawNode
	storage *raft.MemoryStorage
	applied uint64
	pending *raft.Ready // taken, and not durable yet
	early   bool        // its messages, as a leader, have left
}

type cluster struct {
	trace                *tracer
	random               *rand.Rand
	preVote, checkQuorum bool
	nodes                []*node
	conf                 *pb.ConfState
	network              []*pb.Message
	cut                  map[uint64]bool // servers on one side of a partition
	loss, doubling, lazy float64
	proposed             int
}

func start(trace *tracer, random *rand.Rand, nodes int, preVote, checkQuorum bool) *cluster {
	c := &cluster{trace: trace, random: random, preVote: preVote, checkQuorum: checkQuorum, conf: &pb.ConfState{},
		cut: map[uint64]bool{}, loss: []float64{0, 0.05, 0.2}[random.Intn(3)], doubling: []float64{0, 0.1}[random.Intn(2)],
		lazy: []float64{0, 0.3, 0.6}[random.Intn(3)]}
	for id := 1; id <= nodes; id++ {
		c.conf.Voters = append(c.conf.Voters, uint64(id))
	}
	for id := 1; id <= nodes; id++ {
		storage := raft.NewMemoryStorage()
		must(storage.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: c.conf, Index: new(uint64(0)), Term: new(uint64(0))}}))
		n := &node{id: uint64(id), storage: storage}
		c.nodes = append(c.nodes, n)
		c.open(n)
	}
	return c
}

// open starts a server with what its disk has.
func (c *cluster) open(n *node) {
	snapshot, err := n.storage.Snapshot()
	must(err)
	state, _, err := n.storage.InitialState()
	must(err)
	first, err := n.storage.FirstIndex()
	must(err)
	last, err := n.storage.LastIndex()
	must(err)
	baseTerm, err := n.storage.Term(first - 1)
	must(err)
	var stored []*pb.Entry
	if last >= first {
		stored, err = n.storage.Entries(first, last+1, 1<<40)
		must(err)
	}
	c.trace.host(hostEvent{Name: "Started", NodeID: name(n.id), Hard: hardState(state), Base: &position{first - 1, baseTerm},
		Entries: entries(stored)})
	n.applied = snapshot.GetMetadata().GetIndex()
	n.raw, err = raft.NewRawNode(&raft.Config{ID: n.id, ElectionTick: electionTicks, HeartbeatTick: 1, Storage: n.storage,
		Applied: n.applied, MaxSizePerMsg: 64, MaxInflightMsgs: 4, PreVote: c.preVote, CheckQuorum: c.checkQuorum,
		Logger: &raft.DefaultLogger{Logger: silent}, TraceLogger: c.trace})
	must(err)
}

// settle makes all that a server has to say durable, and sends its messages.
func (c *cluster) settle(n *node) {
	c.finish(n)
	for n.raw.HasReady() {
		c.ready(n)
		c.finish(n)
	}
}

// ready takes what a server has to say. A leader may send before its own disk has the entries.
func (c *cluster) ready(n *node) {
	ready := n.raw.Ready()
	n.pending = &ready
	n.early = n.raw.BasicStatus().RaftState == raft.StateLeader && c.random.Intn(2) == 0
	if n.early {
		c.send(ready.Messages, false)
	}
}

// finish makes durable what is pending, and sends the messages that waited for that.
func (c *cluster) finish(n *node) {
	if n.pending != nil {
		ready := *n.pending
		n.pending = nil
		c.store(n, ready)
		for _, committed := range ready.CommittedEntries {
			n.applied = committed.GetIndex()
		}
		n.raw.Advance(ready)
		c.trace.host(hostEvent{Name: "Released", NodeID: name(n.id)})
		if !n.early {
			c.send(ready.Messages, false)
		}
		c.send(ready.Messages, true)
	}
}

func (c *cluster) store(n *node, ready raft.Ready) {
	stored := hostEvent{Name: "Stored", NodeID: name(n.id), Entries: entries(ready.Entries)}
	if !raft.IsEmptySnap(ready.Snapshot) {
		must(n.storage.ApplySnapshot(ready.Snapshot))
		n.applied = ready.Snapshot.GetMetadata().GetIndex()
		stored.Snapshot = &position{n.applied, ready.Snapshot.GetMetadata().GetTerm()}
	}
	must(n.storage.Append(ready.Entries))
	if !raft.IsEmptyHardState(ready.HardState) {
		must(n.storage.SetHardState(ready.HardState))
		stored.Hard = hardState(ready.HardState)
	}
	c.trace.host(stored)
}

// send puts messages on the network: those of a leader, which need not wait for its disk, or all others.
func (c *cluster) send(messages []*pb.Message, waited bool) {
	for _, m := range messages {
		leads := m.GetType() == pb.MsgApp || m.GetType() == pb.MsgHeartbeat || m.GetType() == pb.MsgSnap
		if leads == waited {
			continue
		}
		if of := untraced(m); of != nil {
			c.trace.host(hostEvent{Name: "Sent", NodeID: of.From, Message: of})
		}
		if c.random.Float64() >= c.loss {
			c.network = append(c.network, m)
		}
	}
}

// deliver takes a message from the network, in any order, sometimes twice, and never through a partition.
func (c *cluster) deliver() {
	if len(c.network) == 0 {
		return
	}
	at := c.random.Intn(min(len(c.network), 6))
	m := c.network[at]
	if c.random.Float64() >= c.doubling {
		c.network = append(c.network[:at], c.network[at+1:]...)
	}
	arrives := c.cut[m.GetFrom()] == c.cut[m.GetTo()]
	if m.GetType() == pb.MsgSnap {
		outcome := raft.SnapshotFailure
		if arrives {
			outcome = raft.SnapshotFinish
		}
		from := c.nodes[m.GetFrom()-1]
		c.input(from, "ReportSnapshot")
		from.raw.ReportSnapshot(m.GetTo(), outcome)
		c.settle(from)
	}
	if !arrives {
		return
	}
	n := c.nodes[m.GetTo()-1]
	answers := m.GetType() == pb.MsgAppResp || m.GetType() == pb.MsgHeartbeatResp
	if !answers || m.GetTerm() != n.raw.BasicStatus().GetTerm() {
		c.settle(n)
	}
	if of := untraced(m); of != nil {
		c.trace.host(hostEvent{Name: "Received", NodeID: of.To, Message: of})
	}
	_ = n.raw.Step(m) // an error says that the message is dropped
	if answers {
		c.after(n)
	} else {
		c.settle(n) // an answer leaves in the term in which it is given
	}
}

// after settles a server, or leaves that for later if it leads: then others may commit what its own disk lacks. While it hands
// over it does not wait: what it says to its successor is true as long as it leads.
func (c *cluster) after(n *node) {
	status := n.raw.BasicStatus()
	waits := c.random.Float64() < c.lazy && status.RaftState == raft.StateLeader && status.LeadTransferee == raft.None
	if !waits {
		c.settle(n)
	} else if n.pending == nil && n.raw.HasReady() {
		c.ready(n)
	}
}

func (c *cluster) input(n *node, input string) {
	c.trace.host(hostEvent{Name: "Input", NodeID: name(n.id), Input: input})
}

func (c *cluster) crash(n *node) {
	if n.pending == nil && n.raw.HasReady() {
		c.ready(n)
	}
	if c.random.Intn(2) == 0 {
		c.finish(n)
	}
	n.pending = nil
	c.trace.host(hostEvent{Name: "Stopped", NodeID: name(n.id)})
	c.open(n)
}

func (c *cluster) compact(n *node) {
	c.settle(n)
	if n.applied < 2 {
		return
	}
	if _, err := n.storage.CreateSnapshot(n.applied, c.conf, nil); err != nil {
		return // there is one already
	}
	if upto := n.applied - uint64(c.random.Intn(2)); upto > 0 {
		_ = n.storage.Compact(upto) // an error says that it is cut already
	}
}

// step draws one thing that happens.
func (c *cluster) step() {
	n := c.nodes[c.random.Intn(len(c.nodes))]
	leads := n.raw.BasicStatus().RaftState == raft.StateLeader
	draw := c.random.Intn(1000)
	switch {
	case draw < 600:
		c.deliver()
	case draw < 700:
		if leads {
			c.settle(n)
			c.input(n, "Tick")
			n.raw.Tick()
			c.after(n)
		}
	case draw < 870:
		if leads {
			c.propose(n)
		}
	case draw < 910:
		if !leads && (c.random.Intn(8) == 0 || !c.led()) {
			c.stand(n)
		}
	case draw < 930:
		if leads {
			c.input(n, "TransferTo")
			n.raw.TransferLeader(c.nodes[c.random.Intn(len(c.nodes))].id)
			c.after(n)
		}
	case draw < 950:
		c.crash(n)
	case draw < 965:
		c.compact(n)
	case draw < 980:
		c.cut = map[uint64]bool{n.id: true, c.nodes[c.random.Intn(len(c.nodes))].id: c.random.Intn(2) == 0}
	default:
		c.cut = map[uint64]bool{}
	}
}

// propose gives a leader an entry. In one of four cases its disk stalls meanwhile, and others may commit before it.
func (c *cluster) propose(n *node) {
	lazy := c.lazy
	if c.random.Intn(4) == 0 {
		c.settle(n)
		c.lazy = 1
	}
	c.proposed++
	c.input(n, "Propose")
	_ = n.raw.Propose([]byte("e" + strconv.Itoa(c.proposed))) // dropped while it hands over
	c.after(n)
	for range 12 {
		if c.lazy == 1 {
			c.deliver()
		}
	}
	c.lazy = lazy
}

// led tells whether a server leads.
func (c *cluster) led() bool {
	for _, n := range c.nodes {
		if n.raw.BasicStatus().RaftState == raft.StateLeader {
			return true
		}
	}
	return false
}

// stand lets a server stand for election. With a check of the quorum no follower of a leader votes, so some forget it first.
func (c *cluster) stand(n *node) {
	for _, other := range c.nodes {
		if c.checkQuorum && (other == n || c.random.Intn(2) == 0) {
			c.input(other, "ForgetLeader")
			_ = other.raw.ForgetLeader()
			c.settle(other)
		}
	}
	c.input(n, "Campaign")
	_ = n.raw.Campaign()
	c.settle(n)
}

// end heals the network and lets all arrive. A leader, if there is one, beats until nothing is left to say.
func (c *cluster) end() {
	c.cut, c.loss, c.doubling, c.lazy = map[uint64]bool{}, 0, 0, 0
	for range 4 {
		for _, n := range c.nodes {
			c.settle(n)
			if n.raw.BasicStatus().RaftState == raft.StateLeader {
				c.input(n, "Tick")
				n.raw.Tick()
				c.settle(n)
			}
		}
		for len(c.network) > 0 {
			c.deliver()
		}
	}
}
