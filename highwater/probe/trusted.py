"""Ask a store quickly for the one guarantee that a journal needs. Safety: it is trusted only if it was seen to give it."""

import time

from highwater.impl.stores.s3 import Verdict, named_endpoint, verdict_of
from highwater.impl.stores.system import Ulids
from highwater.probe.asking import Asker, connect
from highwater.probe.lines import CREATE, NOT_ASKED, PASS, UNSAFE, Found, Line
from highwater.probe.run import FAILURES, NoStore, asked, lines

ROUNDS = 3  # of the race of 16 clients
ATTEMPTS = 8  # of each line and listing, while the store is busy
PAUSE_S = 0.1  # after the first attempt; it doubles with each further one


def faults_of_create(bucket: str, prefix: str = "") -> list[str]:
    """Return what is wrong with the store's PUT If-None-Match: *, a line each. Raises NoStore if the bucket cannot be listed or
    written.

    The server is the one of AWS_ENDPOINT_URL, else Amazon's. What was written is deleted in any case."""
    try:
        asker = Asker(connect(named_endpoint() or None), bucket, f"{prefix}highwater-probe-{Ulids().new_id()}/")
        check_list(asker)
    except (*FAILURES, ValueError) as error:
        raise NoStore(str(error)) from error
    faults = []
    try:
        for line in lines(ROUNDS):
            if line.uses == CREATE:
                found = definite(line, asker)
                if found.verdict == NOT_ASKED:
                    raise NoStore(f"{line.asks}: {found.saw}")
                if found.verdict == UNSAFE or (line.name == "create_new" and found.verdict != PASS):
                    faults.append(f"{line.name}: {found.saw}")
    finally:
        for attempt in range(ATTEMPTS):
            if not asker.clean():
                break
            time.sleep(PAUSE_S * 2 ** attempt)
    return faults


def check_list(asker: Asker) -> None:
    """Check that the bucket can be listed. Raises FAILURES, ValueError."""
    for attempt in range(ATTEMPTS):
        try:
            asker.listed()
            return
        except FAILURES as error:
            if attempt == ATTEMPTS - 1 or verdict_of(error) is Verdict.REFUSED:
                raise
        time.sleep(PAUSE_S * 2 ** attempt)


def definite(line: Line, asker: Asker) -> Found:
    """Ask a line until its requests have definite answers. A refusal of all writes is one."""
    found = Found(NOT_ASKED, "")
    for attempt in range(ATTEMPTS):
        place = asker.place(f"{line.name}-{attempt}")
        found = asked(line, place)
        decided = found.verdict != NOT_ASKED and not found.by_effect
        if decided or any(answer.status in (401, 403) for answer in place.undecided):
            break
        time.sleep(PAUSE_S * 2 ** attempt)
    return found
