"""boto3 and obstore with default settings report a won race as lost if a reply is lost; our S3 store does not.

The recorder in front of a real server loses the reply of the first PUT (`lose PUT * nth=1`). Both libraries send the PUT again.
The second PUT finds the object of the first, and the caller gets its 412. In a protocol of sequenced files such a writer fences
itself, or writes its update twice. impl/stores/s3.py sends the PUT once, with an id of its own, and reads the object back.
"""

import asyncio

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from highwater.impl.errors import AlreadyExists, OutcomeUnknown, PreconditionFailed
from highwater.impl.stores import s3
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.recorder.session import recording

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run
LOST = {"lost": "lose PUT * nth=1", "500": "fail-reply 500 PUT * nth=1", "503": "fail-reply 503 PUT * nth=1"}


@pytest.fixture(params=LOST)
def session(request, versitygw_stores):
    """A recorder that spoils the reply of the first PUT, in front of a server that verifies signatures."""
    with recording(versitygw_stores.url, rules=LOST[request.param]) as session:
        session.stores = versitygw_stores
        session.direct = connect(versitygw_stores.url)
        yield session


def body(session, key: str = "k") -> bytes:
    return session.direct.get_object(Bucket=session.stores.bucket, Key=key)["Body"].read()


def puts(session) -> list[tuple[int, int]]:
    """Return for each PUT the server's status and the status that reached the client."""
    return [(r.status, r.told) for r in session.settled() if r.op == "put"]


def shown(session) -> None:
    """The first PUT won; the second, of the same client, was told that it had lost."""
    (first, told), *again = puts(session)
    assert first == 200 and told in (0, 500, 503) and again == [(412, 412)]
    assert body(session) == b"mine", "and yet it is the winner's"


@pytest.mark.parametrize("retries", [{}, {"mode": "standard"}], ids=["as it comes", "standard"])
def test_boto3_tells_the_winner_of_a_create_that_it_has_lost(session, retries):
    client = boto3.client("s3", endpoint_url=session.urls["client"], config=Config(retries=retries))
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket=session.stores.bucket, Key="k", Body=b"mine", IfNoneMatch="*")
    assert s3.status_of(raised.value) == 412
    shown(session)


def test_boto3_tells_the_winner_of_an_update_that_it_has_lost(session):
    version = session.direct.put_object(Bucket=session.stores.bucket, Key="k", Body=b"before")["ETag"]
    client = boto3.client("s3", endpoint_url=session.urls["client"])
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket=session.stores.bucket, Key="k", Body=b"mine", IfMatch=version)
    assert s3.status_of(raised.value) == 412
    shown(session)


@pytest.fixture
def obstore(session):
    """SlateDB's own client of object stores, as it comes."""
    pytest.importorskip("obstore", reason="obstore is not installed: it is one of the packages of `dev`")
    from obstore.store import S3Store as Store

    return Store(session.stores.bucket, endpoint=session.urls["client"], region="us-east-1", virtual_hosted_style_request=False,
                 access_key_id="test", secret_access_key="testtest", client_options={"allow_http": True})


def test_obstore_tells_the_winner_of_a_create_that_it_has_lost(session, obstore):
    import obstore as library

    with pytest.raises(library.exceptions.AlreadyExistsError):
        library.put(obstore, "k", b"mine", mode="create")
    shown(session)


def test_obstore_tells_the_winner_of_an_update_that_it_has_lost(session, obstore):
    import obstore as library

    version = session.direct.put_object(Bucket=session.stores.bucket, Key="k", Body=b"before")["ETag"]
    with pytest.raises(library.exceptions.PreconditionError):
        library.put(obstore, "k", b"mine", mode={"e_tag": version})
    shown(session)


# --- Ours


@pytest.fixture
def ours(session, monkeypatch):
    monkeypatch.setattr(s3, "PAUSE_S", 0.01)
    return S3Store(connect(session.urls["client"]), session.stores.bucket, ids=Ulids())


def test_ours_finds_its_own_id_and_tells_the_winner_so(session, ours):
    version = run(ours.create("k", b"mine"))
    assert version == session.direct.head_object(Bucket=session.stores.bucket, Key="k")["ETag"]
    assert [r.op for r in session.settled()] == ["put", "head"], "it was sent once"
    with pytest.raises(AlreadyExists):
        run(ours.create("k", b"another"))


def test_ours_finds_its_own_update(session, ours):
    before = session.direct.put_object(Bucket=session.stores.bucket, Key="k", Body=b"before")["ETag"]
    version = run(ours.update("k", b"mine", before))
    assert body(session) == b"mine" and len(puts(session)) == 1
    with pytest.raises(PreconditionFailed):
        run(ours.update("k", b"another", before))
    assert version == session.direct.head_object(Bucket=session.stores.bucket, Key="k")["ETag"]


@pytest.mark.parametrize("meanwhile", ["put_object", "delete_object"])
def test_ours_says_so_where_it_cannot_know(session, ours, meanwhile):
    """Another was faster than its look: it may have won, and been superseded, or collected."""
    session.rules(f"{session._recorder.rules.text}\nhold HEAD *")

    async def case():
        writing = asyncio.ensure_future(ours.create("k", b"mine"))
        await asyncio.to_thread(session.wait, lambda s: s.held())
        getattr(session.direct, meanwhile)(Bucket=session.stores.bucket, Key="k")
        session.rules("")
        with pytest.raises(OutcomeUnknown):
            await writing

    run(case())
    assert len(puts(session)) == 1


def test_ours_says_so_of_what_was_never_sent(session, ours):
    session.rules("drop PUT *")
    with pytest.raises(OutcomeUnknown):
        run(ours.create("k", b"mine"))
    assert puts(session) == [(0, 0)]
