package main

import (
	"io"
	"log"
)

// silent takes what etcd's Raft logs: what it did is in the answers.
var silent = log.New(io.Discard, "", 0)
