// The parser and the matchers of Prometheus, for tests/interop/test_interop_selectors.py. One JSON object a line:
// {"expr": selector, "sets": [labels]} -> {"error": text} or {"matchers": [[name, op, value]], "match": [bool]}.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type question struct {
	Expr string              `json:"expr"`
	Sets []map[string]string `json:"sets"`
}

type answer struct {
	Error    string      `json:"error,omitempty"`
	Matchers [][3]string `json:"matchers"`
	Match    []bool      `json:"match"`
}

func matches(matchers []*labels.Matcher, set map[string]string) bool {
	for _, m := range matchers {
		if !m.Matches(set[m.Name]) {
			return false
		}
	}
	return true
}

func answerTo(q question, p parser.Parser) answer {
	matchers, err := p.ParseMetricSelector(q.Expr)
	if err != nil {
		return answer{Error: err.Error()}
	}
	a := answer{Matchers: [][3]string{}, Match: []bool{}}
	for _, m := range matchers {
		a.Matchers = append(a.Matchers, [3]string{m.Name, m.Type.String(), m.Value})
	}
	for _, set := range q.Sets {
		a.Match = append(a.Match, matches(matchers, set))
	}
	return a
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder, p := json.NewEncoder(out), parser.NewParser(parser.Options{})
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			log.Fatal(err)
		}
		if err := encoder.Encode(answerTo(q, p)); err != nil {
			log.Fatal(err)
		}
	}
	out.Flush()
}
