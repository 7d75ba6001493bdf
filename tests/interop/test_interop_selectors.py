"""Prometheus's own parser and matchers are asked about drawn selectors; each is refused by both, or means the same to both.

tools/prometheus is the program that asks them. It needs Go; without it the test is skipped.

    HIGHWATER_DRAWN=100000 .venv/bin/python -m pytest -m interop tests/interop/test_interop_selectors.py
"""

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from highwater.impl.index.query.matching import PROMETHEUS, holding, label_sets
from highwater.impl.index.query.selector import InvalidSelector, parse
from tests.support.go import built

pytestmark = pytest.mark.interop
DRAWN = int(os.environ.get("HIGHWATER_DRAWN", 20_000))
SOURCES = Path(__file__).resolve().parents[2] / "tools" / "prometheus"
EXPRESSIONS = (".*", ".+", "", "x.*", "[a-c]+", r"\\d", "a|b", "(?i)B", "(", "(?=a)", r"\\C", r"\\Qa\\E", r"\\Q\\C\\E", "a**",
               "a{2}{3}", r"\\pL", "x{1001}", "(?P<n>x)", "(?<n>x)", r"\\z", r"\\Z", "[[:alpha:]]", "(?s)a.b", "(?-s)a.b",
               "(?m)^x$", "(?U)a+", r"\\b", r"\\x{e9}", r"\\1", r"a\\", r"x|\xff", r"\xff.")
ESCAPES = (r"a\nb", r"\xff", r"\x41", r"\101", r"\u00e9", r"\ud800", r"\U0010ffff", r"\U00110000",
           r"\400", r"\'", r"\"", r"\q", "\\")
SIGNS = ("{", "}", ",", "=", "!=", "=~", "!~", "==", "!", "~", ".", "@", "[5m]", ":", "9", "9a", "#c\n", "#c", " ", "\n", "\t",
         "\r", "ü", "\ufffd", "\0")
WORDS = ("a", "b", "m", "le", "a:b", ":x", "sum", "by", "on", "On", "bool", "or", "and", "offset", "inf", "NaN", "fill",
         "fill_left", "group_left", "ATAN2", "start", "range", "step", "limitk", "without", "ignoring", "__name__")
VALUES = ("", "x", "y", "a", "b", "B", "a\nb", "é", "xy", "A", "aa", r"\d", "5", "abc")
SETS: list[dict[str, str]] = [{}, {"__name__": "m"}, *({name: value} for name in ("a", "b") for value in VALUES)]

STRINGS = ["", *dict.fromkeys(text for labels in SETS for pair in labels.items() for text in pair if text)]
INDEX = {text: number for number, text in enumerate(STRINGS)}
OURS = label_sets([tuple((INDEX[name], INDEX[value]) for name, value in labels.items()) for labels in SETS])


def quoted(draw: Random) -> str:
    quote = draw.choice("\"\"\"'`")
    return quote + draw.choice((*EXPRESSIONS, *ESCAPES, *VALUES, "ü", "\0", "a\rb")) + quote


def likely(draw: Random) -> str:
    """Draw a selector that is right but for its texts."""
    matchers = []
    for _ in range(draw.randrange(4)):
        name = draw.choice((quoted(draw), *WORDS))
        matchers.append(name + draw.choice(("", " ")) + draw.choice(("=", "!=", "=~", "!~")) + quoted(draw))
    begin, end = draw.choice(("", "", *WORDS)) + "{", draw.choice(("}", ",}", " }", "#c\n}")) + draw.choice(("", " ", "#c"))
    return begin + draw.choice((",", ", ", ",\n")).join(matchers) + end


def drawn(draw: Random) -> str:
    text = likely(draw) if draw.random() < 0.7 else "".join(
        quoted(draw) if draw.random() < 0.2 else draw.choice((*SIGNS, *WORDS)) for _ in range(draw.randrange(9)))
    if text and draw.random() < 0.2:
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(("", *SIGNS)) + text[at + 1:]
    return text


def shown(text: str) -> str:
    """Return a text as JSON of Go has it: each byte that is not UTF-8 is replaced."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def ours(text: str) -> dict[str, Any]:
    try:
        matchers = parse(text)
    except InvalidSelector as error:
        return {"error": str(error)}
    return {"matchers": [[shown(part) for part in matcher] for matcher in matchers],
            "match": holding(OURS, matchers, STRINGS, INDEX, PROMETHEUS).tolist()}


def test_our_selectors_are_prometheus_s():
    program = built(SOURCES, "prometheus-selectors", "Prometheus")
    texts = [drawn(Random(seed)) for seed in range(DRAWN)]
    lines = "".join(json.dumps({"expr": text, "sets": SETS}) + "\n" for text in texts)
    answers = [json.loads(line) for line in subprocess.run([program], input=lines, capture_output=True, text=True,
                                                            check=True).stdout.splitlines()]
    assert len(answers) == DRAWN
    refused = 0
    for text, theirs in zip(texts, answers):
        mine = ours(text)
        refused += "error" in mine
        assert ("error" in mine) == ("error" in theirs), (text, mine, theirs)
        assert "error" in mine or mine == {"matchers": theirs["matchers"], "match": theirs["match"]}, (text, mine, theirs)
    assert DRAWN // 5 < refused < DRAWN * 4 // 5
