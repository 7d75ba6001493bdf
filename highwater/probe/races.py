"""Safety: of sixteen clients that send the same request at one moment one wins, and all others are told that they lost.

Each race is a volley (highwater/probe/asking.py): the requests are complete except for a byte, and the last bytes go out
together.
"""

import threading
from collections import Counter
from functools import partial

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


def told(counted: Counter, rounds: int, wrong: Counter, contended: str) -> Found:
    words = ", ".join(f"{number} x {status or 'no answer'}" for status, number in sorted(counted.items()))
    if wrong:
        return Found(UNSAFE, "; ".join(f"{number} of {rounds} races: {what}" for what, number in wrong.items()))
    data: dict[str, object] = {contended: 409} if counted[409] else {}
    if not counted.keys() & {200, 201, 204}:
        return Found(NOT_ASKED, f"{rounds} races that nobody won: {words}")
    usual = counted.keys() <= {200, 201, 204, 404, 409, 412}
    return Found(PASS if usual else DIFFERS, f"{rounds} races, one winner each: {words}", data)


def create_race(rounds: int, s: Asker) -> Found:
    clients, counted, wrong = Clients(CLIENTS), Counter(), Counter()
    try:
        for number in range(rounds):
            answers = volley(s, clients, f"{number:04}", **{"If-None-Match": "*"})
            counted.update(answer.status for answer in answers)
            what, _ = winner_of(s, f"{number:04}", answers)
            wrong.update([what] if what else ())
    finally:
        clients.close()
    return told(counted, rounds, wrong, "create_contended")


def update_race(rounds: int, s: Asker) -> Found:
    clients, counted, wrong = Clients(CLIENTS), Counter(), Counter()
    try:
        for number in range(rounds):
            version = s.put("k", b"round %d" % number).version
            answers = volley(s, clients, "k", **{"If-Match": version})
            counted.update(answer.status for answer in answers)
            what, _ = winner_of(s, "k", answers)
            wrong.update([what] if what else ())
    finally:
        clients.close()
    return told(counted, rounds, wrong, "update_contended")


def delete_race(rounds: int, s: Asker) -> Found:
    """Let half of the clients update and the others delete, If-Match of the same version."""
    clients, counted, wrong = Clients(CLIENTS), Counter(), Counter()
    try:
        for number in range(rounds):
            fields = {"If-Match": s.put("k", b"round %d" % number).version}
            urls = s.signed("put_object", "k"), s.signed("delete_object", "k")
            shots = [Shot(("PUT", "DELETE")[number % 2], urls[number % 2], fields, b"" if number % 2 else body_of(number))
                     for number in range(CLIENTS)]
            answers = clients.volley(shots)
            counted.update(answer.status for answer in answers)
            updated = any(answer.done for answer in answers[::2])
            deleted = any(answer.status in (200, 204) for answer in answers[1::2]) and s.get("k").status == 404
            wrong.update(["an update was acknowledged, and deleted by one who did not know it"] if updated and deleted else ())
    finally:
        clients.close()
    return told(counted, rounds, wrong, "")


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
            if s.put("k", b"%08d" % number * (LARGE // 8)).done:
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
    return Found(PASS, f"{rounds} writes of {LARGE // 1024} KiB: whole, current, never back")


def lines(rounds: int) -> tuple[Line, ...]:
    return (
        Line("create_race", f"{CLIENTS} clients create one key, If-None-Match: *", CREATE, partial(create_race, rounds)),
        Line("update_race", f"{CLIENTS} clients update one object, If-Match of one version", UPDATE,
             partial(update_race, rounds)),
        Line("delete_race", f"{CLIENTS} clients update or delete it, If-Match", ("conditional_delete",),
             partial(delete_race, rounds // 2)),
        Line("reads_while_written", "4 clients read what another writes", PROTOCOLS, partial(reads_while_written, rounds)),
    )
