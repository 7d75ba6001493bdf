"""Safety: a writer whose reply was lost learns that it won, or that it cannot know; never that it lost.

The recorder (highwater/recorder/) stands between the probe and the store for these lines, and loses the replies.
"""

import asyncio
from functools import partial

from highwater.impl.errors import Definite, OutcomeUnknown
from highwater.impl.stores.s3 import S3Store
from highwater.impl.stores.system import Ulids
from highwater.probe.asking import Asker, connect
from highwater.probe.lines import CREATE, DIFFERS, NOT_ASKED, PASS, UNSAFE, UPDATE, Found, Line
from highwater.recorder.session import Session, recording


def behind(s: Asker, session: Session) -> Asker:
    return Asker(connect(s.client.meta.endpoint_url, session.urls["client"]), s.bucket, s.prefix)


def resolved(kind: str, s: Asker) -> Found:
    version = s.put("k", b"before").version if kind == "update" else ""
    with recording(s.client.meta.endpoint_url, rules="lose PUT * nth=1") as session:
        store = S3Store(behind(s, session).client, s.bucket, s.prefix, ids=Ulids())
        try:
            asyncio.run(store.update("k", b"mine", version) if kind == "update" else store.create("k", b"mine"))
            found = Found(PASS, "it won, and is told so")
        except OutcomeUnknown as error:
            found = Found(DIFFERS, f"it won, and is told that nobody knows: {str(error)[:80]}")
        except Definite as error:
            found = Found(UNSAFE, f"it won, and is told {type(error).__name__}")
        first = session.settled()[0]
    if first.status != 200:
        return Found(NOT_ASKED, f"through the recorder the store answers {first.status} {first.code}")
    return found


def repeated(kind: str, s: Asker) -> Found:
    """Send the same request twice, as libraries do after a lost reply."""
    fields = {"IfMatch": s.put("k", b"before").version} if kind == "update" else {"IfNoneMatch": "*"}
    with recording(s.client.meta.endpoint_url, rules="lose PUT * nth=1") as session:
        asker = behind(s, session)
        answers = [asker.put("k", b"mine", **fields) for _ in range(2)]
        first = session.settled()[0]
    if first.status != 200:
        return Found(NOT_ASKED, f"through the recorder the store answers {first.status} {first.code}")
    if not answers[1].status:
        return Found(NOT_ASKED, "the second request had no answer")
    if answers[1].done:
        return Found(UNSAFE, f"{answers[1]}: the condition is ignored")
    return Found(PASS if answers[1].status == 412 else DIFFERS,
                 f"{answers[1]}: a library that repeats it tells the winner that it has lost")


LINES = (
    Line("create_lost", "the reply to a create is lost; S3Store looks for its id", CREATE, partial(resolved, "create")),
    Line("update_lost", "the same of an update", UPDATE, partial(resolved, "update")),
    Line("create_repeated", "the reply to a create is lost, and it is sent again", CREATE, partial(repeated, "create")),
    Line("update_repeated", "the same of an update", UPDATE, partial(repeated, "update")),
)
