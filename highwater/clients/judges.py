"""Safety: a client is convicted only of what the log of its requests shows, whatever its format.

Each judge reads the log of a trial, the log of the run without faults, and how the commands ended. A commit is a conditional
PUT, copy or completed upload. Keys with the same text apart from their numbers, as `log/7.json` and `log/8.json`, are of one
kind.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from highwater.clients.findings import CODES, Evidence, Finding
from highwater.clients.models import modelled
from highwater.clients.trial import HUNG, SETUP, said
from highwater.traces.recorded.s3log import Request
from highwater.traces.store import same

PUTS = ("put", "copy", "complete")
NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16,}|\d+")  # UUID, ULID, digest, number
SHORTEST_NAME = 8  # of an object whose name in a body is taken for a reference
TOLD = re.compile(r"^told (committed|failed) (\S+)$", re.MULTILINE)


def findings(of: Evidence) -> list[Finding]:
    """Return what the judges find, the worst first."""
    found = [finding for judge in JUDGES for finding in judge(of)]
    return sorted(found, key=lambda finding: [*CODES].index(finding.kind))


# --- what a log says of a request

def applied(one: Request) -> bool:
    """Whether the server says that a request has changed something."""
    return bool(one.sent) and 200 <= one.status < 300


def conditional(one: Request) -> bool:
    return "if-match" in one.conditions or "if-none-match" in one.conditions


def is_commit(one: Request) -> bool:
    return one.op in PUTS and conditional(one)


def acknowledged(one: Request) -> bool:
    """Whether the client was told that the request has succeeded."""
    return 200 <= one.told < 300


def kind_of(one: Request) -> str:
    return NUMBERS.sub("#", one.key)


def text_of(one: Request) -> str:
    return (one.sent_body.data or b"").decode("utf-8", "replace")


def shown(one: Request) -> str:
    told = one.told or ("no reply" if one.called else "nothing")
    return f"request {one.number}, {one.method} {one.key} (server: {one.status or 'not asked'}, {one.client} was told: {told})"


# --- judges

def hung(of: Evidence) -> Iterator[Finding]:
    for name, ended in of.seen.ended.items():
        if ended.exit_code == HUNG:
            yield Finding("hung", f"{name} did not end in {ended.seconds:.0f} s")


def checked(of: Evidence) -> Iterator[Finding]:
    for what, ended in of.seen.checks:
        if ended.exit_code == HUNG:
            yield Finding("hung", f"{what} did not end in {ended.seconds:.0f} s")
        elif ended.exit_code:
            yield Finding("check failed", f"{what}: {said(ended)}")


def committed_twice(of: Evidence) -> Iterator[Finding]:
    """A commit was applied, its client was told something else, and then the client committed the same under another key."""
    mine = Mine(of)
    for first in [one for one in of.requests if is_commit(one) and applied(one) and not acknowledged(one)]:
        for again in [one for one in of.requests if is_commit(one) and applied(one) and one.number > first.number]:
            if (again.client, kind_of(again)) == (first.client, kind_of(first)) and again.key != first.key and (
                    same := mine.same(first, again)):
                yield Finding("committed twice", f"{shown(first)}; then {shown(again)}: {same}", (first.number, again.number))
                break


class Mine:
    """Evidence that two commits say the same: equal contents, or that both name the same new object.

    Contents of a kind that recur in the run without faults tell nothing, as those of a manifest that is put anew without a
    change. Neither do names if the commits of this client and of --setup repeat those of earlier ones, as manifests of all
    files do.
    """

    def __init__(self, of: Evidence):
        usual = Counter((kind_of(one), one.sent_body.sha256) for one in of.clean if is_commit(one) and applied(one))
        self.repeating = {kind for (kind, _), times in usual.items() if times > 1}
        self.data = {one.key.rpartition("/")[2]: one.client for one in of.requests if one.op in PUTS and not conditional(one)}
        self.usual_of = {name: [one for one in [*of.seen.before, *of.clean] if one.client in (name, SETUP)]
                         for name in of.seen.ended}

    def same(self, one: Request, two: Request) -> str:
        digest = one.sent_body.sha256
        if digest and digest == two.sent_body.sha256 and kind_of(one) not in self.repeating:
            return "equal contents"
        if repeats_names(self.usual_of[one.client], kind_of(one)):
            return ""
        texts = text_of(one), text_of(two)
        return next((f"both name {name}" for name, client in self.data.items() if client == one.client and (
            len(name) >= SHORTEST_NAME and all(name in text for text in texts))), "")


def repeats_names(requests: Sequence[Request], kind: str) -> bool:
    """Whether commits of this kind repeat the names of data, or too few commits name any to tell."""
    names = {one.key.rpartition("/")[2] for one in requests if one.op in PUTS and not conditional(one)}
    texts = [text_of(one) for one in requests if is_commit(one) and applied(one) and kind_of(one) == kind]
    naming = [found for text in texts if (found := {name for name in names if len(name) >= SHORTEST_NAME and name in text})]
    return len(naming) < 2 or len(set.union(*naming)) < sum(map(len, naming))


def overwritten(of: Evidence) -> Iterator[Finding]:
    """A client put without a condition over what another had put, and been told so, since this one had read the key."""
    for key in {one.key for one in of.requests if one.op in PUTS and applied(one)} - keys_of_commits(of):
        puts = [one for one in of.requests if one.key == key and one.op in PUTS and applied(one)]
        for before, after in pairwise(puts):
            if conditional(after) or of.is_hint(after) or after.client == before.client or (
                    after.sent_body.sha256 == before.sent_body.sha256):
                continue
            read = last_read(of.requests, after)
            if read and read.told == 200 and read.version == before.version:
                continue  # it had seen that
            if read and acknowledged(before):
                yield Finding("overwritten", f"{shown(after)} replaces {shown(before)}, but {after.client} last read the key "
                              f"before, in request {read.number}", (read.number, before.number, after.number))


def keys_of_commits(of: Evidence) -> set[str]:
    return {one.key for one in [*of.requests, *of.clean] if is_commit(one)}


def replaced_unread(of: Evidence) -> Iterator[Finding]:
    """A client replaced another's version, by a condition that names it, and had never read it: so its content is stale."""
    for one in [one for one in of.requests if one.op == "put" and applied(one) and "if-match" in one.conditions]:
        before = max((other for other in of.requests if other.key == one.key and other.op in PUTS and applied(other) and (
            other.answered < one.answered)), key=lambda other: other.answered, default=None)
        gets = [other for other in of.requests if other.client == one.client and other.key == one.key and other.op == "get"]
        if before and before.client != one.client and gets and not of.is_hint(one) and not any(
                get.number < one.number and same(get.version, before.version) for get in gets):
            yield Finding("overwritten", f"{shown(one)} replaces {shown(before)}, whose content {one.client} has not read",
                          (before.number, one.number))


def last_read(requests: Sequence[Request], put: Request) -> Request | None:
    """Return the last answer about the key that the client had before this PUT."""
    reads = [one for one in requests if one.client == put.client and one.key == put.key and one.number < put.number and (
        one.told in (200, 404) and (one.op in ("get", "head") or one.op in PUTS))]
    return max(reads, key=lambda one: one.returned, default=None)


def put_blindly(of: Evidence) -> Iterator[Finding]:
    """A client put without a condition on a key that commits use."""
    keys = keys_of_commits(of)
    for one in of.requests:
        if one.op in PUTS and applied(one) and not conditional(one) and one.key in keys and not of.is_hint(one):
            yield Finding("put blindly", f"{shown(one)} has no condition, and others of this key have", (one.number,))


def success_without_commit(of: Evidence) -> Iterator[Finding]:
    """A commit was not applied, fewer of its kind were than without faults, and the command ended with 0."""
    for name in [name for name, ended in of.seen.ended.items() if not ended.exit_code]:
        for one in [one for one in of.requests if one.client == name and is_commit(one) and refused(one)]:
            alike = [other for other in of.clean if other.client == name and is_commit(other) and (
                kind_of(other) == kind_of(one))]
            now = [other for other in of.requests if other.client == name and other.op in PUTS and applied(other) and (
                kind_of(other) == kind_of(one))]  # a blind one, too: another judge tells it
            stands = any(applied(other) and other.sent_body.sha256 == one.sent_body.sha256 and (
                other.key == one.key or (other.client, kind_of(other)) == (name, kind_of(one)))
                for other in of.requests)  # by an earlier try, a client that puts the same, or a commit that changes nothing
            if len(now) < len(alike) and all(map(applied, alike)) and not stands:  # without faults it does not race in vain
                yield Finding("success without a commit", f"{shown(one)}; {name} committed {len(now)} times and not "
                              f"{len(alike)}, and ended with 0", (one.number,))


def refused(one: Request) -> bool:
    """Whether it is certain that a request has changed nothing."""
    return not one.sent or 400 <= one.status < 500


def error_though_committed(of: Evidence) -> Iterator[Finding]:
    """A commit was applied, its client was told something else; sent again, it was refused because of itself, and the client
    failed. It did not get over that, and nobody else has put anything that it could have failed for."""
    for first in [one for one in of.requests if is_commit(one) and applied(one) and not acknowledged(one)]:
        ended, me = of.seen.ended[first.client], first.client
        again = next((one for one in of.requests if one.number > first.number and is_commit(one) and (
            (one.client, one.key, one.told) == (me, first.key, 412))), None)
        if not again or ended.exit_code <= 0:
            continue
        last = max(one.number for one in of.requests if one.client == me)
        others = [one for one in of.requests if one.client != me and one.op in PUTS and applied(one) and (
            first.number < one.number < last)]
        went_on = [one for one in of.requests if one.client == me and one.op in PUTS and acknowledged(one) and (
            one.number > again.number)]
        if not others and not went_on:
            yield Finding("error though committed", f"{shown(first)}; {shown(again)} because of that, and {me} ended with "
                          f"{said(ended)}", (first.number, again.number))


def dangling(of: Evidence) -> Iterator[Finding]:
    """An object was deleted that the newest commit of its kind names."""
    commits = [one for one in of.requests if is_commit(one) and applied(one)]
    for one in of.requests:
        if not of.names or one.op != "delete" or not applied(one):
            continue
        newest = {kind_of(commit): commit for commit in commits if commit.answered < one.answered}
        for commit in newest.values():
            if any(one.key.endswith(name) for name in of.names.findall(text_of(commit)) if name):
                yield Finding("dangling", f"{shown(one)} deletes what {shown(commit)} names", (commit.number, one.number))


def told_wrongly(of: Evidence) -> Iterator[Finding]:
    """A client printed `told committed KEY` or `told failed KEY`, or wrote it to its file of such lines, and the log says
    otherwise. KEY may be a pattern."""
    for name, ended in of.seen.ended.items():
        for word, pattern in TOLD.findall(f"{ended.output}\n{ended.told}"):
            puts = [one for one in of.requests if one.client == name and one.op in PUTS and applied(one) and (
                fnmatchcase(one.key.removeprefix(of.place.prefix), pattern))]
            if word == "committed" and not puts:
                yield Finding("told wrongly", f"{name} said that {pattern} is committed, and no PUT of it was applied")
            elif word == "failed" and puts:
                yield Finding("told wrongly", f"{name} said that {pattern} has failed, and {shown(puts[-1])}", (
                    puts[-1].number,))


JUDGES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    hung, checked, committed_twice, overwritten, replaced_unread, put_blindly, success_without_commit, error_though_committed,
    dangling, told_wrongly, modelled)
