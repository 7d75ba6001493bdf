"""A project's own mapping judges the log of its implementation: the lock of examples/lease on a real S3 server, recorded."""

import asyncio
import json
import os
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids, system_world
from highwater.recorder.session import recording
from highwater.servers.leash import CannotStart
from highwater.servers.s3 import KEY, SECRET
from highwater.traces.recorded.s3log import Body, Request, read, to_json
from tests.support.projects import forget
from tests.support.slatedb.kept import replaced, requests_of
from tests.support.stores.s3_servers import s3_server

LEASE = project.PACKAGE.parent / "examples/lease"
CLIENTS = ("A", "B")
BUCKET = "bucket"


@pytest.fixture(scope="module")
def requests(tmp_path_factory) -> list[Request]:
    """Two clients take the lock from each other. The clock of one is slow: it writes with a lease that it has lost."""
    log = tmp_path_factory.mktemp("recorded") / "log"
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    project.use(str(LEASE))
    try:
        from lease.impl import DATA, Fenced, Lease
        with s3_server("versitygw") as server, open(log, "w") as file:
            connect(server).create_bucket(Bucket=BUCKET)
            with recording(server, CLIENTS, log=file, keep_bytes=1 << 16) as session:
                asyncio.run(worked(session.urls, DATA, Fenced, Lease))
                session.settled()
    except CannotStart as error:
        pytest.skip(str(error))
    finally:
        forget()
    with open(log) as lines:
        return read(lines).requests


async def worked(urls: dict[str, str], data: str, fenced: type[Exception], lease: Any) -> None:
    stores = [S3Store(connect(urls[name]), BUCKET, ids=Ulids()) for name in CLIENTS]
    await stores[0].create(data, b"[]")
    first, second = (lease(system_world(store), name, 800) for store, name in zip(stores, CLIENTS))
    await first.append("0.0")
    await first.append("0.1")
    held = first.held
    await second.append("1.0")  # waits until the lease has expired
    first.held = held._replace(expires_ms=held.expires_ms + 60_000)
    with pytest.raises(fenced):
        await first.append("0.2")
    await second.release()
    await first.append("0.3")


def checked(folder: Path, requests: list[Request], *options: str, of: Path = LEASE) -> tuple[int, str]:
    lines = ['{"kind":"log","v":1}', *map(to_json, requests), f'{{"kind":"end","requests":{len(requests)}}}']
    (folder / "log").write_text("\n".join(lines) + "\n")
    try:
        result = CliRunner().invoke(app, ["trace", "check", str(folder / "log"), "--project", str(of), *options])
    finally:
        forget()
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def puts(requests: list[Request], key: str) -> list[int]:
    return [i for i, one in enumerate(requests) if one.op == "put" and one.key == key and one.status == 200]


def test_the_log_refines_the_model(tmp_path, requests):
    code, text = checked(tmp_path, requests)
    assert code == 0 and "held against lease (db/lock and db/data)" in text, text
    assert "4 Append" in text and "1 TakeOver" in text and "1 Release" in text and "taken for granted: 1 x" in text, text


def edited(requests: list[Request], i: int, **fields: Any) -> list[Request]:
    return replaced(**fields)(requests, i, Random(0))


def body(content: Any) -> Body:
    data = json.dumps(content).encode()
    return Body(len(data), "", data)


def test_a_write_of_an_earlier_holder_is_refused(tmp_path, requests):
    """The data is put with the token of a lease that another client took over, as if nobody had looked."""
    at = puts(requests, "db/data")[3]  # B's
    stale = requests[:at + 1]
    token = max(json.loads(stale[i].sent_body.data)[0] for i in puts(stale, "db/lock") if stale[i].client == "A")
    late = next(one for one in requests[at + 1:] if one.client == "A" and one.op == "get" and one.key == "db/data")
    content = [*json.loads(late.got_body.data), [token, "0.2"]]
    stale += [late, late._replace(op="put", method="PUT", sent_body=body(content), got_body=body(""), number=late.number + 1000,
                                  conditions={"if-match": late.version}, version="later", **after(late))]
    code, text = checked(tmp_path, stale)
    assert code == 10 and "HoldersDoNotMix is broken" in text, text
    assert "holders_do_not_mix needs tokens == sorted(tokens) (lease/model.py:" in text
    assert "what led there: request 1, A" in text


def test_a_write_without_a_condition_is_refused(tmp_path, requests):
    """A puts the data on top of what it read before B wrote. The guard has no name in the model, so the action's is given."""
    at = puts(requests, "db/data")[3]  # B's
    own = next(i for i in puts(requests, "db/data")[2::-1] if requests[i].client == "A")
    blind = requests[own]._replace(number=1000, conditions={}, version="later", **after(requests[at]))
    code, text = checked(tmp_path, [*requests[:at + 1], blind])
    assert code == 11 and "append needs " in text and "s.data == w.base (lease/model.py:" in text, text


def after(one: Request) -> dict[str, int]:
    return dict(zip(("called", "sent", "answered", "returned"), range(one.returned + 1, one.returned + 5)))


def test_a_lock_with_a_wrong_number_is_refused(tmp_path, requests):
    """The number of the lock is not the next one."""
    at = puts(requests, "db/lock")[-1]
    lock = json.loads(requests[at].sent_body.data)
    wrong = edited(requests, at, sent_body=body([lock[0] + 1, *lock[1:]]))
    code, text = checked(tmp_path, wrong[:at + 1])
    assert code == 10 and "Form is broken" in text and "leads elsewhere" in text, text


def test_options_for_other_layouts_are_refused(tmp_path, requests):
    code, text = checked(tmp_path, requests, "--set", "BOUNDARY=False")
    assert code == 2 and "recorded.py judges this log, and takes no safeguards" in text


# --- a mapping that says nothing, or is none

@pytest.mark.parametrize("machine, exit_code, told", [
    ("None", 2, "machine() returns None, not a highwater.traces.recorded.machine.Machine"),
    ("Machine(1 / 0)", 2, "ZeroDivisionError: division by zero"),
    ("Machine(lambda change: change.nothing)", 2, "has no attribute 'nothing'"),
    ("Machine(lambda change: 'no')", 2, "the mapping says 'no' of request 0, and not a Refusal or None"),
    ("Machine(lambda change: None)", 3, "counts no change as an action of a model"),
])
def test_a_wrong_mapping_gets_a_line(tmp_path, machine, exit_code, told):
    of = tmp_path / "lease"
    copytree(LEASE, of)
    (of / "lease/recorded.py").write_text(
        "from highwater.traces.recorded.machine import Machine\n\nMODELS = {'lease': 'all'}\n\n\n"
        f"def is_metadata(key):\n    return True\n\n\ndef machine():\n    return {machine}\n")
    code, text = checked(tmp_path, [*requests_of("stale_writer_refused")], of=of)
    assert code == exit_code and told in text, text
