"""Recorded logs that stay in the repository, their verdicts, and seeded edits of them.

    python -m tests.support.slatedb.kept add NAME LOG [BOUNDARY=False]    keep a log under tests/golden/recorded/
    python -m tests.support.slatedb.kept judge                            write the verdicts anew: only where they should change

Bodies of data objects are left out: no verdict depends on them, only on their digests. An edit is made from a seed, so only its
verdict is stored.
"""

import json
import lzma
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from highwater.traces.recorded import s3log
from highwater.traces.recorded.orders import search
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.facts import Knobs
from highwater.traces.recorded.systems.slatedb import Slatedb
from highwater.traces.recorded.systems.slatedb_layout import SEQUENCED, place_of

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "recorded"
VERDICTS = FOLDER / "verdicts.json"
EDITS = 200
EDITED = ("clone_without_pin", "day_0_13", "day_0_14", "day_0_15", "day_0_17", "soak", "stale_writer_fenced",
          "stale_writer_refused", "ten_thousand")  # up to the request that is refused, if one is
BUDGET = 5_000  # steps of a search beyond the requests of the log; a search that needs more is undecided
LONGEST = 1_200  # requests of the part of a log that is edited


class Judged(NamedTuple):
    """A verdict as it is stored: each refusal is [request, guard], and harmful guards are listed again."""

    verdict: str
    matched: int
    refused: list[list]
    harm: list[str]


def names() -> list[str]:
    return sorted(path.name.removesuffix(".ndjson.xz") for path in FOLDER.glob("*.ndjson.xz"))


def stored() -> dict:
    return json.loads(VERDICTS.read_text())


@lru_cache
def requests_of(name: str) -> tuple[Request, ...]:
    with lzma.open(FOLDER / f"{name}.ndjson.xz", "rt") as lines:
        return tuple(s3log.read(lines).requests)


def judged(requests: list[Request], boundary: bool, **safeguards: bool) -> Judged:
    """`safeguards` of the models are switched off."""
    steps, _ = steps_of(requests)
    found = search(steps, Slatedb(Knobs(BOUNDARY=boundary), **safeguards), len(steps) + BUDGET)
    refused = [[step.what.request.number, refusal.guard] for step, refusal in found.refused]
    return Judged(found.verdict, found.matched, refused, [refusal.guard for _, refusal in found.refused if refusal.harm])


# --- edits: each returns the requests after a mistake of a client or of the store, at one place of the log

Edit = Callable[[list[Request], int, Random], list[Request]]


def dropped(requests: list[Request], i: int, random: Random) -> list[Request]:
    """The client does not send a request."""
    return requests[:i] + requests[i + 1:]


def never_again(requests: list[Request], i: int, random: Random) -> list[Request]:
    """The client does not send this request to this key, from here on."""
    kind = requests[i].client, requests[i].op, requests[i].key
    return requests[:i] + [one for one in requests[i:] if (one.client, one.op, one.key) != kind]


def replaced(**fields: Any) -> Edit:
    def edit(requests: list[Request], i: int, random: Random) -> list[Request]:
        return [*requests[:i], requests[i]._replace(**fields), *requests[i + 1:]]

    return edit


def other_id(requests: list[Request], i: int, random: Random) -> list[Request]:
    """A request names the next id, or the one before."""
    place = place_of((requests[i].bucket, requests[i].key))
    assert place is not None
    key = place.key(max(1, place.id + random.choice((-1, 1))))[1]
    return replaced(key=key)(requests, i, random)


def other_client(requests: list[Request], i: int, random: Random) -> list[Request]:
    """A request is sent by another client of the log."""
    return replaced(client=random.choice(sorted({one.client for one in requests})))(requests, i, random)


def answered_otherwise(requests: list[Request], i: int, random: Random) -> list[Request]:
    status = 412 if requests[i].status == 200 else 200
    return replaced(status=status, told=status)(requests, i, random)


def earlier(requests: list[Request], i: int, random: Random) -> list[Request]:
    """A request is sent, and answered, before the client's request before it."""
    mine = [j for j in range(i) if requests[j].client == requests[i].client]
    if not mine:
        return requests
    before, one = requests[mine[-1]], requests[i]
    moments = ("called", "sent", "answered", "returned", "times_us")
    swapped = [*requests]
    swapped[mine[-1]] = one._replace(**{name: getattr(before, name) for name in moments})
    swapped[i] = before._replace(**{name: getattr(one, name) for name in moments})
    return swapped


def other_body(requests: list[Request], i: int, random: Random) -> list[Request]:
    """A file is put with the content of another file of its sequence; a boundary with another number."""
    one = requests[i]
    if one.key.endswith(".boundary"):
        number = int((one.sent_body.data or b"0") if one.op == "put" else (one.got_body.data or b"0")) + random.choice((-2, 3))
        data = b"%d" % max(0, number)
        body = s3log.Body(len(data), "", data)
        return replaced(**{"sent_body" if one.op == "put" else "got_body": body})(requests, i, random)
    folder = one.key.rpartition("/")[0]
    bodies = [of.sent_body for of in requests if of.op == "put" and of.key.rpartition("/")[0] == folder]
    return replaced(sent_body=random.choice(bodies)._replace(sha256=""))(requests, i, random)


def deleted_instead(requests: list[Request], i: int, random: Random) -> list[Request]:
    """A client deletes what it read or put."""
    empty = s3log.Body()
    return replaced(op="delete", method="DELETE", status=204, told=204, conditions={}, sent_body=empty, got_body=empty)(
        requests, i, random)


def is_file(one: Request) -> bool:
    place = place_of((one.bucket, one.key))
    return place is not None and place.id > 0


def is_put(one: Request) -> bool:
    return one.op == "put" and place_of((one.bucket, one.key)) is not None


def is_sequenced(one: Request) -> bool:
    place = place_of((one.bucket, one.key))
    return place is not None and place.folder in SEQUENCED


def is_boundary(one: Request) -> bool:
    return one.key.endswith(".boundary") and one.status == 200


OPERATIONS: dict[str, tuple[Callable[[Request], bool], Edit]] = {
    "reads dropped": (lambda one: one.op == "get" and is_sequenced(one), never_again),
    "checks dropped": (lambda one: one.op == "get" and one.key.endswith(".boundary"), never_again),
    "put dropped": (is_put, dropped),
    "other id": (lambda one: is_file(one) and one.op != "list", other_id),
    "other client": (is_put, other_client),
    "answered otherwise": (is_put, answered_otherwise),
    "no condition": (lambda one: is_put(one) and one.status == 200, replaced(conditions={})),
    "reply lost": (is_put, replaced(told=0)),
    "answer lost": (is_put, replaced(answered=0, returned=0, status=0, told=0)),
    "earlier": (lambda one: is_file(one) or one.key.endswith(".boundary"), earlier),
    "other body": (lambda one: (is_put(one) and is_sequenced(one)) or is_boundary(one), other_body),
    "deleted instead": (lambda one: is_file(one) and one.op in ("get", "put"), deleted_instead),
}


def edited(number: int) -> tuple[str, str, bool, list[Request]]:
    """Return an edit of a log, of the part that passes: the log's name, what was done, whether there are boundary files, the
    requests."""
    random = Random(f"edit {number}")
    logs = {name: stored()["logs"][name] for name in EDITED}
    name = EDITED[number % len(logs)]
    passing = logs[name]["refused"][0][0] - 1 if logs[name]["refused"] else LONGEST
    requests = [*requests_of(name)][:min(LONGEST, passing)]
    fitting = [what for what in sorted(OPERATIONS) if any(map(OPERATIONS[what][0], requests))]
    what = fitting[number // len(logs) % len(fitting)]
    fits, edit = OPERATIONS[what]
    i = random.choice([i for i, one in enumerate(requests) if fits(one)])
    what += f" at request {requests[i].number}"
    requests = edit(requests, i, random)
    return name, what, logs[name]["boundary"], requests


# --- the script

def add(name: str, log: Path, boundary: bool) -> None:
    with open(log) as lines:
        whole = s3log.read(lines)
    if not whole.whole:
        raise SystemExit(f"{log} has no end: the recorder was stopped")
    FOLDER.mkdir(exist_ok=True)
    head = {"kind": "log", "v": s3log.VERSION, "clients": whole.head["clients"]}
    requests = [without_data(one) for one in whole.requests]
    lines = [json.dumps(head), *map(s3log.to_json, requests), json.dumps({"kind": "end", "requests": len(requests)})]
    (FOLDER / f"{name}.ndjson.xz").write_bytes(lzma.compress("\n".join([*lines, ""]).encode(), preset=9 | lzma.PRESET_EXTREME))
    known = stored() if VERDICTS.exists() else {"logs": {}, "edits": []}
    known["logs"][name] = {"boundary": boundary}
    write(known)


def without_data(one: Request) -> Request:
    folder = one.key.rpartition("/")[0].rpartition("/")[2]
    if folder not in ("wal", "compacted"):
        return one
    return one._replace(**{name: body._replace(data=None) for name in ("sent_body", "got_body")
                           if (body := getattr(one, name)).size_bytes})


def judge() -> None:
    known = stored()
    for name, log in known["logs"].items():
        log |= judged([*requests_of(name)], log["boundary"])._asdict()
    write(known)
    known["edits"] = [[name, what, *judged(requests, boundary)]
                      for name, what, boundary, requests in map(edited, range(EDITS))]
    write(known)


def write(known: dict) -> None:
    logs = [f"  {json.dumps(name)}: {json.dumps(log)}" for name, log in sorted(known["logs"].items())]
    edits = [f"  {json.dumps(edit)}" for edit in known["edits"]]
    VERDICTS.write_text('{"logs": {\n' + ",\n".join(logs) + '\n}, "edits": [\n' + ",\n".join(edits) + "\n]}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", name, log, *more] if more in ([], ["BOUNDARY=False"]):
            add(name, Path(log), not more)
        case ["judge"]:
            judge()
        case _:
            raise SystemExit(__doc__)
