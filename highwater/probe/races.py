"""Safety: of sixteen clients that send the same request at one moment one wins, and all others are told that they lost.

Each race is a volley (highwater/probe/asking.py): the requests are complete except for a byte, and the last bytes go out
together.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http.client import HTTPException

from highwater.probe.asking import Answer, Asker, Clients, Shot
from highwater.probe.lines import CREATE, DIFFERS, NOT_ASKED, PASS, PROTOCOLS, UNSAFE, UPDATE, Found, Line

CLIENTS = 16
LARGE = 65_536


def body_of(number: int) -> bytes:
    return b"client %d" % number


def volley(s: Asker, clients: Clients, key: str, **fields: str) -> list[Answer]:
    """Let each client put a body of its own to the key."""
    url = s.signed("put_object", key)
    return clients.volley([Shot("PUT", url, fields, body_of(number)) for number in range(CLIENTS)])


def winner_of(s: Asker, key: str, answers: list[Answer]) -> tuple[str, int | None]:
    """Return the fault ("" if there is none), and the client that was told that it won."""
    won = [number for number, answer in enumerate(answers) if answer.done]
    if len(won) > 1:
        return f"{len(won)} were told that they had won", None
    now = s.get(key)
    if not now.done and not now.refused:
        return "", won[0] if won else None  # the read got no answer
    there = now.body
    if won and there != body_of(won[0]):
        return "the object is not the winner's", None
    losers = [body_of(number) for number, answer in enumerate(answers) if answer.refused]
    if there in losers:
        return "the object is of one who was told that he had lost", None
    return "", won[0] if won else None


Race = Callable[[Asker, Clients, int], tuple[list[Answer], str]]


def raced(race: Race, rounds: int, s: Asker, contended: str = "") -> Found:
    """Run the rounds of a race, until the store stops answering. What was seen by then counts."""
    counted, wrong, stopped, number = Counter[int](), Counter[str](), "", 0
    with closing(Clients(CLIENTS)) as clients:
        for number in range(1, rounds + 1):
            try:
                answers, fault = race(s, clients, number)
            except (OSError, HTTPException) as error:
                stopped = str(error)
                break
            counted.update(answer.status for answer in answers)
            wrong.update([fault] if fault else ())
            if not answers[-1].status and not s.answers():
                stopped = "the store stopped answering"
                break
    words = ", ".join(f"{number} x {status or 'no answer'}" for status, number in sorted(counted.items()))
    if wrong:
        return Found(UNSAFE, "; ".join(f"{times} of {number} races: {what}" for what, times in wrong.items()))
    if stopped:
        return Found(NOT_ASKED, f"race {number} of {rounds}: {stopped}")
    if not counted.keys() & {200, 201, 204}:
        return Found(NOT_ASKED, f"{rounds} races that nobody won: {words}")
    data: dict[str, object] = {contended: 409} if contended and counted[409] else {}
    usual = counted.keys() <= {200, 201, 204, 404, 409, 412}
    return Found(PASS if usual else DIFFERS, f"{rounds} races, one winner each: {words}", data)


def begun(s: Asker, number: int) -> str:
    """Put the object of a round; return its version. Raises ConnectionError."""
    answer = s.put("k", b"round %d" % number)
    if not answer.done:
        raise ConnectionError(f"its first PUT was answered with {answer}")
    return answer.version


def create_race(s: Asker, clients: Clients, number: int) -> tuple[list[Answer], str]:
    answers = volley(s, clients, f"{number:04}", **{"If-None-Match": "*"})
    return answers, winner_of(s, f"{number:04}", answers)[0]


def update_race(s: Asker, clients: Clients, number: int) -> tuple[list[Answer], str]:
    answers = volley(s, clients, "k", **{"If-Match": begun(s, number)})
    return answers, winner_of(s, "k", answers)[0]


def delete_race(s: Asker, clients: Clients, number: int) -> tuple[list[Answer], str]:
    """Let half of the clients update and the others delete, If-Match of the same version."""
    fields = {"If-Match": begun(s, number)}
    urls = s.signed("put_object", "k"), s.signed("delete_object", "k")
    answers = clients.volley([Shot(("PUT", "DELETE")[client % 2], urls[client % 2], fields,
                                   b"" if client % 2 else body_of(client)) for client in range(CLIENTS)])
    updated = any(answer.done for answer in answers[::2])
    deleted = any(answer.status in (200, 204) for answer in answers[1::2]) and s.get("k").status == 404
    return answers, "an update was acknowledged, and deleted by one who did not know it" if updated and deleted else ""


def reads_while_written(rounds: int, s: Asker) -> Found:
    """Let four clients read while one writes. Each body must be whole, not older than acknowledged writes, and never go back.
    """
    acknowledged, wrong, done = [0], Counter(), threading.Event()
    answered = Counter()
    s.put("k", b"%08d" % 0 * (LARGE // 8))

    def read() -> None:
        last = 0
        while not done.is_set():
            before = acknowledged[0]
            answer = s.get("k")
            if not answer.done:
                answered["failed"] += answer.failed
                continue
            answered["reads"] += 1
            number = int(answer.body[:8] or b"-1")
            if answer.body != b"%08d" % number * (LARGE // 8):
                wrong["a body of two writes"] += 1
            elif number < before:
                wrong["older than what was acknowledged"] += 1
            elif number < last:
                wrong["older than what was read before"] += 1
            last = max(last, number)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, rounds + 1):
            if not s.put("k", b"%08d" % number * (LARGE // 8)).done:
                break
            answered["writes"] += 1
            acknowledged[0] = number
    finally:
        done.set()
        for reader in readers:
            reader.join()
    if wrong:
        return Found(UNSAFE, "; ".join(f"{number} x {what}" for what, number in wrong.items()), {"stale": 1})
    if answered["writes"] < rounds or not answered["reads"]:
        return Found(NOT_ASKED, f"of {rounds} writes {answered['writes']} were done, {answered['reads']} reads were answered")
    failed = f"; {answered['failed']} reads had no answer" if answered["failed"] else ""
    return Found(DIFFERS if failed else PASS, f"{rounds} writes of {LARGE // 1024} KiB: whole, current, never back{failed}")


def lines(rounds: int) -> tuple[Line, ...]:
    return (
        Line("create_race", f"{CLIENTS} clients create one key, If-None-Match: *", CREATE,
             lambda s: raced(create_race, rounds, s, "create_contended")),
        Line("update_race", f"{CLIENTS} clients update one object, If-Match of one version", UPDATE,
             lambda s: raced(update_race, rounds, s, "update_contended")),
        Line("delete_race", f"{CLIENTS} clients update or delete it, If-Match", ("conditional_delete",),
             lambda s: raced(delete_race, rounds // 2, s)),
        Line("reads_while_written", "4 clients read what another writes", PROTOCOLS, partial(reads_while_written, rounds)),
    )
