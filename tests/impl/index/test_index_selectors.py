"""Selectors of queries: Prometheus's answers from the golden file, the grammar, and the two meanings of a match."""

import json
from pathlib import Path

import pytest

from highwater.impl.codecs.index.regexes import InvalidRegex, matcher_of
from highwater.impl.index.query.matching import COMPAT, PROMETHEUS, holding, label_sets
from highwater.impl.index.query.selector import InvalidSelector, Matcher, parse

GOLDEN = json.loads((Path(__file__).resolve().parents[2] / "golden/index/pyroscope.json").read_text())["selectors"]


def holds(expression: str, labels: str, semantics: str) -> bool:
    pairs = [pair.split("=", 1) for pair in labels.split(",") if pair]
    strings = ["", *dict.fromkeys(text for pair in pairs for text in pair if text)]
    index = {text: number for number, text in enumerate(strings)}
    sets = label_sets([tuple((index[name], index[value]) for name, value in pairs)])
    return bool(holding(sets, parse(expression), strings, index, semantics)[0])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in GOLDEN])
def test_selectors_are_prometheus_s(case):
    if case.get("error"):
        with pytest.raises(InvalidSelector):
            parse(case["expr"])
        return
    assert [str(matcher) for matcher in parse(case["expr"])] == case["matchers"]
    assert [holds(case["expr"], labels, PROMETHEUS) for labels in case["sets"]] == case["prometheus_match"]


@pytest.mark.parametrize("expression, labels, compat, prometheus", [
    ('{a=""}', "c=d", False, True), ('{a=""}', "a=", True, True), ('{a=~".*"}', "c=d", False, True),
    ('{a!=""}', "c=d", True, False), ('{a!~".+"}', "c=d", True, True), ('{a!="x"}', "c=d", True, True),
    ('{a="x"}', "a=x,a=y", True, True), ('{a="y"}', "a=x,a=y", False, False), ("{}", "", True, True),
    ('{""="x"}', "a=b", True, False), ("m{}", "__name__=m", True, True), ('{a=~"x"}', "a=xx", False, False),
    ('{a=~"x.y"}', "a=x\ny", True, True), ('{a=~"x|y",b!="z"}', "a=y,b=z", False, False),
])
def test_the_two_meanings_differ_where_a_label_is_missing(expression, labels, compat, prometheus):
    assert (holds(expression, labels, COMPAT), holds(expression, labels, PROMETHEUS)) == (compat, prometheus)


@pytest.mark.parametrize("expression, matchers", [
    ("m", [("__name__", "=", "m")]), (" sum { } # all", [("__name__", "=", "sum")]), ("a:b", [("__name__", "=", "a:b")]),
    ('{"m"}', [("__name__", "=", "m")]), ('{"a.b"=\'c\'}', [("a.b", "=", "c")]), ("{a=`\\n`}", [("a", "=", "\\n")]),
    ('{on="\\x41\\101\\u00e9\\U0001F600\\n"}', [("on", "=", "AA\u00e9\U0001F600\n")]),
    ('{a="\\xc3\\xa9"}', [("a", "=", "\u00e9")]),
    ("{a!~'\\'',}", [("a", "!~", "'")]), ('m{__name__="n"}', [("__name__", "=", "n"), ("__name__", "=", "m")]),
    ('{a#x\n="b" #y\n}', [("a", "=", "b")]), ("fill_left", [("__name__", "=", "fill_left")]),
])
def test_what_a_selector_may_be(expression, matchers):
    assert parse(expression) == tuple(Matcher(*of) for of in matchers)


@pytest.mark.parametrize("expression, why", [
    ("", "the end at position 0"), ("{", "the end at position 1"), ("{}x", "'x' at position 2, where the end of the selector"),
    ("m[5m]", "'['"), ("m offset 5m", "'o'"), ("a or b", "'o'"), ("bool", "'bool' is a word of queries"), ("INF{}", "'INF'"),
    ("{a}", "one of = != =~ !~"), ('{a:b="c"}', "':'"), ('{a="b" b="c"}', "a comma or a closing brace"), ("{,}", "','"),
    ('{a="b",,}', "','"), ("{a=b}", "a text in quotes"), ('{a=="b"}', "'='"), ('{a="b}', "the end of the text in quotes"),
    ('{a="\n"}', "the end of the text in quotes"), ('{a="\\q"}', "an escape of Go"), ('{a="\\400"}', "the escape of a byte"),
    ('{a="\\ud800"}', "the escape of a byte or of a character"), ('{a="\ufffd"}', "a character"), ('{a=~"("}', "missing )"),
    ('{a=~"(?=b)"}', "expression"), ('{a=~"\\\\C"}', "\\C at 0"), ('{a!~"\\xff."}', "is not UTF-8"), ("{a=~", "the end"),
])
def test_what_is_no_selector_is_refused_with_its_place(expression, why):
    with pytest.raises(InvalidSelector) as refused:
        parse(expression)
    assert why in str(refused.value) and repr(expression) in str(refused.value)


def test_expressions_are_those_of_re2():
    assert matcher_of("a.c")("a\nc") and not matcher_of("a")("ab") and matcher_of("(?i)A")("a")
    assert matcher_of("x|\udcff")("\udcff") and matcher_of("x|\udcff")("x")  # literals need not be UTF-8
    assert not matcher_of(".")("\udcff\udcfe") and matcher_of(r"\Qa\C\E")("a\\C")
    assert not matcher_of("(a*)*" * 20 + "b")("a" * 5_000)  # Python's `re` would not end
    for expression in ("(?=a)", "a**", "x{1001}", r"\1", r"a\C", "\udcff."):
        with pytest.raises(InvalidRegex):
            matcher_of(expression)
