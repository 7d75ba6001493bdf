package main

import (
	"strconv"

	pb "go.etcd.io/raft/v3/raftpb"
)

// hostEvent is what etcd's trace does not show. Names of events:
//
//	Started   a server starts with what its disk has: Hard, Base and Entries
//	Stopped   it is killed
//	Input     it is given Input, which no message brought
//	Stored    Hard, Snapshot and Entries are durable, of which those that are absent have not changed
//	Released  its messages may leave that wait for what is durable now
//	Sent, Received   a message of a kind that etcd's trace leaves out
type hostEvent struct {
	Name     string    `json:"name"`
	NodeID   string    `json:"nid"`
	Input    string    `json:"input,omitempty"`
	Hard     *hard     `json:"hard,omitempty"`
	Base     *position `json:"base,omitempty"`
	Snapshot *position `json:"snapshot,omitempty"`
	Entries  []entry   `json:"entries,omitempty"`
	Message  *message  `json:"msg,omitempty"`
}

type hard struct {
	Term   uint64 `json:"term"`
	Vote   string `json:"vote"`
	Commit uint64 `json:"commit"`
}

type position struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

type entry struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Data  string `json:"data"`
}

type message struct {
	Type    string `json:"type"`
	Term    uint64 `json:"term"`
	From    string `json:"from"`
	To      string `json:"to"`
	Index   uint64 `json:"index"`
	LogTerm uint64 `json:"logTerm"`
	Reject  bool   `json:"reject"`
}

func name(id uint64) string { return strconv.FormatUint(id, 10) }

func entries(of []*pb.Entry) []entry {
	found := []entry{}
	for _, e := range of {
		found = append(found, entry{e.GetIndex(), e.GetTerm(), string(e.GetData())})
	}
	return found
}

func hardState(of *pb.HardState) *hard {
	return &hard{of.GetTerm(), name(of.GetVote()), of.GetCommit()}
}

// untraced returns a message of a kind that etcd's trace leaves out; nil if it is none.
func untraced(m *pb.Message) *message {
	switch m.GetType() {
	case pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgTimeoutNow:
		return &message{m.GetType().String(), m.GetTerm(), name(m.GetFrom()), name(m.GetTo()), m.GetIndex(), m.GetLogTerm(),
			m.GetReject()}
	}
	return nil
}
