// Looks through the blocks of some units in bbolt, as an index without columns does, and prints the seconds of CPU of the fastest
// of some runs, and the number of datasets found: bench/index_queries.py.
//
// The file has, for each unit, a big-endian u32 with the number of its strings, each after its length, a u32, and a u32 with the
// number of its blocks, each a key and a value in the same form. Blocks are decoded by the published API's own functions, and
// matchers are Prometheus's. A label set is matched once in a unit.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"strconv"
	"syscall"

	metastorev1 "github.com/grafana/pyroscope/api/gen/proto/go/metastore/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.etcd.io/bbolt"
)

type query struct {
	tenant     string
	start, end int64
	matchers   []*labels.Matcher
}

// cpu returns the seconds of CPU that this process has used.
func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// load puts the units of a file into a database, and returns the strings of each.
func load(db *bbolt.DB, body []byte) [][]string {
	number := func() int {
		n := binary.BigEndian.Uint32(body)
		body = body[4:]
		return int(n)
	}
	text := func() []byte {
		size := number()
		part := body[:size]
		body = body[size:]
		return part
	}
	var tables [][]string
	must(db.Update(func(tx *bbolt.Tx) error {
		for len(body) > 0 {
			table := make([]string, number())
			for i := range table {
				table[i] = string(text())
			}
			unit, err := tx.CreateBucket([]byte(strconv.Itoa(len(tables))))
			must(err)
			for left := number(); left > 0; left-- {
				key, value := text(), text()
				must(unit.Put(key, value))
			}
			tables = append(tables, table)
		}
		return nil
	}))
	return tables
}

// matches tells whether a label set, as references, satisfies all matchers; a missing label is one that = does not match.
func (q query) matches(table []string, pairs []int32) bool {
	for _, m := range q.matchers {
		found := m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp
		for k := 0; k < len(pairs); k += 2 {
			if table[pairs[k]] == m.Name {
				found = m.Matches(table[pairs[k+1]])
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// scan returns the number of datasets that the query finds in a unit.
func (q query) scan(unit *bbolt.Bucket, table []string) int {
	found, known, key := 0, map[string]bool{}, make([]byte, 0, 64)
	must(unit.ForEach(func(_, value []byte) error {
		var block metastorev1.BlockMeta
		must(block.UnmarshalVT(value))
		if block.MinTime > q.end || block.MaxTime < q.start {
			return nil
		}
		for _, of := range block.Datasets {
			if table[of.Tenant] != q.tenant || of.MinTime > q.end || of.MaxTime < q.start {
				continue
			}
			for at := 0; at < len(of.Labels); {
				pairs := of.Labels[at+1 : at+1+2*int(of.Labels[at])]
				at += 1 + len(pairs)
				key = key[:0]
				for _, n := range pairs {
					key = binary.LittleEndian.AppendUint32(key, uint32(n))
				}
				holds, seen := known[string(key)]
				if !seen {
					holds = q.matches(table, pairs)
					known[string(key)] = holds
				}
				if holds {
					found++
					break
				}
			}
		}
		return nil
	}))
	return found
}

func main() {
	body, err := os.ReadFile(os.Args[1])
	must(err)
	db, err := bbolt.Open(os.Args[2], 0o600, &bbolt.Options{NoSync: true})
	must(err)
	tables := load(db, body)
	q := query{tenant: os.Args[3]}
	q.start, err = strconv.ParseInt(os.Args[4], 10, 64)
	must(err)
	q.end, err = strconv.ParseInt(os.Args[5], 10, 64)
	must(err)
	q.matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(os.Args[6])
	must(err)
	best, found := 0.0, 0
	for run := 0; run < 6; run++ {
		start := cpu()
		found = 0
		must(db.View(func(tx *bbolt.Tx) error {
			for i, table := range tables {
				found += q.scan(tx.Bucket([]byte(strconv.Itoa(i))), table)
			}
			return nil
		}))
		if took := cpu() - start; run == 0 || took < best {
			best = took
		}
	}
	fmt.Println(best, found)
}
