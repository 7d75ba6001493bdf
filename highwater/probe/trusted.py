"""Ask a store quickly for the one guarantee that a journal needs. Safety: it is trusted only if it was seen to give it."""

from highwater.impl.stores.s3 import named_endpoint
from highwater.impl.stores.system import Ulids
from highwater.probe.asking import Asker, connect
from highwater.probe.lines import CREATE, NOT_ASKED, PASS, UNSAFE
from highwater.probe.run import FAILURES, NoStore, asked, lines

ROUNDS = 3  # of the race of 16 clients


def faults_of_create(bucket: str, prefix: str = "") -> list[str]:
    """Return what is wrong with the store's PUT If-None-Match: *, a line each. Raises NoStore if the bucket cannot be listed or
    written.

    The server is the one of AWS_ENDPOINT_URL, else Amazon's. What was written is deleted in any case."""
    try:
        asker = Asker(connect(named_endpoint() or None), bucket, f"{prefix}highwater-probe-{Ulids().new_id()}/")
        asker.listed()
    except (*FAILURES, ValueError) as error:
        raise NoStore(str(error)) from error
    faults = []
    try:
        for line in lines(ROUNDS):
            if line.uses == CREATE:
                found = asked(line, asker.place(line.name))
                if found.verdict == NOT_ASKED:
                    raise NoStore(f"{line.asks}: {found.saw}")
                if found.verdict == UNSAFE or (line.name == "create_new" and found.verdict != PASS):
                    faults.append(f"{line.name}: {found.saw}")
    finally:
        asker.clean()
    return faults
