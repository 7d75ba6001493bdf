"""Safety: a rule does what it says, to the requests that it names; without a rule a request passes unchanged.

A rule is a line of text; docs/checking/recorder.md explains the grammar:

    ACTION WHAT KEY [OPTION=VALUE ..]       the first that matches, and has not run out, is in force; # begins a comment

    pass                  as if no rule matched
    hold                  the server gets the request when this line is removed
    delay MS              the server gets the request MS milliseconds later
    drop                  the server never gets it, and the client's connection is closed
    fail STATUS           the server never gets it, and the client is told STATUS
    hold-reply, delay-reply MS      the server has the request, but the client waits for the reply
    lose                  the server has it, and the client's connection is closed in place of a reply
    fail-reply STATUS     the server has it, and the client is told STATUS in place of the reply
    stall                 the server has it, and the client waits until it gives up
    late MS               the client's connection is closed at once, and the server gets the request MS milliseconds later

WHAT is GET, HEAD, LIST, PUT, POST, DELETE, COPY, BEGIN, PART, COMPLETE, ABORT, DELETE_MANY, MUTATION (a PUT, COPY, COMPLETE,
DELETE or DELETE_MANY) or *. KEY is a pattern for the key, or for the prefix of a LIST; * stands for any text, slashes included.
Options: client=NAME; if=match, if=none-match or if=any (the request has that condition, or one of them); nth=N (only the Nth
match), first=N, every=N, after=N (all but the first N); code=WORD (S3's error code beside a STATUS).
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from highwater.messages import meant

VALUED = {"delay": "MS", "delay-reply": "MS", "fail": "STATUS", "fail-reply": "STATUS", "late": "MS"}
ACTIONS = ("pass", "hold", "drop", "hold-reply", "lose", "stall", *VALUED)
WHATS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE", "COPY", "BEGIN", "PART", "COMPLETE", "ABORT", "DELETE_MANY",
         "MUTATION", "*")
MUTATIONS = ("put", "copy", "complete", "delete", "delete_many")  # the kinds of request that change which objects there are
COUNTS = ("nth", "first", "every", "after")
CONDITIONS = {"match": ("if-match",), "none-match": ("if-none-match",), "any": ("if-match", "if-none-match")}
PRESETS = {"conditional-put": "PUT * if=any", "put": "PUT *", "delete": "DELETE *", "mutation": "MUTATION *"}


class BadRule(ValueError):
    """A line that is not a rule."""

    pass


class Rule(NamedTuple):
    """One parsed line."""

    text: str
    action: str
    value: int  # ms, or a status; 0: the action has none
    what: str
    key: str
    client: str = ""
    condition: str = ""  # one of CONDITIONS
    count: tuple[str, int] = ("", 0)
    code: str = ""

    def matches(self, client: str, op: str, method: str, key: str, conditions: dict[str, str]) -> bool:
        return (self.what in ("*", op.upper()) or (self.what == "MUTATION" and op in MUTATIONS) or (
            self.what == method and op != "list")) and (
            not self.client or self.client == client) and (
            not self.condition or not conditions.keys().isdisjoint(CONDITIONS[self.condition])) and fnmatchcase(key, self.key)

    def takes(self, seen: int) -> bool:
        """Return whether the rule applies to the `seen`th matching request, counted from 1."""
        kind, number = self.count
        return {"nth": seen == number, "first": seen <= number, "every": number > 0 and seen % number == 0,
                "after": seen > number}.get(kind, True)


class Rules:
    """The rules in force, and how many requests each has matched. A line that stays when others change keeps its count."""

    def __init__(self, text: str = ""):
        self._seen: dict[tuple[str, int], int] = {}
        self._rules: dict[tuple[str, int], Rule] = {}
        self.text = ""
        self.replace(text)

    def replace(self, text: str) -> None:
        """Replace the rules. Raises BadRule; then the old ones stay."""
        rules, times = {}, {}
        for number, line in enumerate(text.splitlines(), 1):
            line = " ".join(line.partition("#")[0].split())
            if line:
                try:
                    rule = parse(line)
                except BadRule as error:
                    raise BadRule(f"line {number}: {error}") from None
                times[line] = times.get(line, 0) + 1
                rules[line, times[line]] = rule
        self.text, self._rules = text, rules
        self._seen = {name: self._seen.get(name, 0) for name in rules}

    def find(self, client: str, op: str, method: str, key: str, conditions: dict[str, str]) -> Rule | None:
        for name, rule in self._rules.items():
            if rule.matches(client, op, method, key, conditions):
                self._seen[name] += 1
                if rule.takes(self._seen[name]):
                    return None if rule.action == "pass" else rule
        return None

    def has(self, rule: Rule) -> bool:
        return any(rule is other or rule == other for other in self._rules.values())


def parse(line: str) -> Rule:
    action, *words = line.split(" ")
    if action not in ACTIONS:
        raise BadRule(f"there is no action {action!r}{meant(action, ACTIONS)}; there are {', '.join(ACTIONS)}")
    value = 0
    if action in VALUED:
        value = number_of(f"{action} {VALUED[action]}", words.pop(0) if words else "")
        if VALUED[action] == "STATUS" and not 400 <= value <= 599:
            raise BadRule(f"status {value} is not an error: give one from 400 to 599")
    if len(words) < 2:
        raise BadRule(f"{line!r} is too short: after the action, give a kind of request and a pattern of keys, as in PUT *")
    what, key, *options = words
    if what.upper() not in WHATS:
        raise BadRule(f"there is no kind of request {what!r}{meant(what, WHATS)}; there are {', '.join(WHATS)}")
    found: dict = {}
    for option in options:
        name, _, text = option.partition("=")
        if name in COUNTS and "count" not in found:
            found["count"] = (name, number_of(name, text))
        elif name == "if" and text in CONDITIONS:
            found["condition"] = text
        elif name in ("client", "code") and text:
            found[name] = text
        else:
            raise BadRule(f"{option!r}: options are client=NAME, if=match, if=none-match, if=any, "
                          "code=WORD, and one of nth=N, first=N, every=N, after=N")
    return Rule(line, action, value, what.upper(), key, **found)


def presets(each: Iterable[str], first: Iterable[str] = ()) -> str:
    """Return the rules that lose the reply to each request, or to the first one, of some classes. Raises BadRule."""
    lines = []
    for options, names in (("", each), (" nth=1", first)):
        for name in names:
            if name not in PRESETS:
                raise BadRule(f"there is no class of requests {name!r}{meant(name, PRESETS)}; there are {', '.join(PRESETS)}")
            lines.append(f"lose {PRESETS[name]}{options}\n")
    return "".join(lines)


def number_of(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise BadRule(f"{name}: {text!r} is not a number from 1")
    return int(text)
