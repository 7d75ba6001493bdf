"""The responses of each store profile, cell by cell; a real server with the S3 API responds as the profile s3 says.

In reading order: the requests; the table; the simulated store agrees with it, and every entry matters; moto, versitygw, MinIO
if it is built, and the server of HIGHWATER_S3_ENDPOINT agree with the column s3; the client's reading of a status.
"""

import asyncio
import itertools
import os
import time
from types import SimpleNamespace

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

from highwater.dst.world.profiles import PROFILES, READS, S3, Profile, error_of, scaled
from highwater.dst.world.store import S3_IN_MS, Reply, SimulatedStore
from highwater.impl.errors import (
    AlreadyExists,
    BeyondEnd,
    Definite,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from highwater.impl.stores import s3
from highwater.impl.stores.s3 import S3Store
from highwater.impl.stores.system import Ulids
from highwater.impl.world import Page, list_all
from tests.support.stores.s3_servers import SERVERS

pytest_plugins = ["tests.support.stores.fixtures"]

NOW_MS = 1_234_567_891


class Simulated:
    """Asks a simulated store, and sees to it that what is refused changes nothing."""

    many, late_ms = 5001, 0  # keys, more than any page has; how long it may take to apply a request

    def __init__(self, profile: Profile):
        self.profile, self.store, self.now_ms = profile, SimulatedStore(profile=profile), NOW_MS

    def ask(self, op: str, key: str, body: bytes = b"", condition: str = "", contended: bool = False) -> Reply:
        before = dict(self.store.objects)
        reply = self.store.apply(op, key, body, condition, self.now_ms, contended)
        assert reply.status < 300 or self.store.objects == before, f"{op} was answered with {reply.status}, and applied"
        assert self.store.keys == sorted(self.store.objects)
        self.now_ms += self.profile.mutation_gap_ms
        return reply

    def fill(self, keys: list[str]) -> None:
        for key in keys:
            self.store.apply("create", key, b"", "", NOW_MS)

    def delete_many(self, keys: list[str]) -> Reply:
        return self.store.delete_many(keys, self.now_ms)

    def changed(self, **data: object) -> "Simulated":
        return Simulated(self.profile._replace(**data))


# --- The requests, each in an empty store. An answer is a status, or a word.


def create_new(s):
    return s.ask("create", "k", b"1").status


def create_exists(s):
    s.ask("create", "k", b"1")
    return s.ask("create", "k", b"2").status


def create_contended(s):
    return s.ask("create", "k", b"1", contended=True).status


def put_contended(s):
    return s.ask("put", "k", b"1", contended=True).status


def update_current(s):
    return s.ask("update", "k", b"2", s.ask("create", "k", b"1").version).status


def update_stale(s):
    version = s.ask("create", "k", b"1").version
    s.ask("put", "k", b"2")
    return s.ask("update", "k", b"3", version).status


def update_missing(s):
    version = s.ask("create", "k", b"1").version
    s.ask("delete", "k")
    return s.ask("update", "k", b"2", version).status


def update_contended(s):
    return s.ask("update", "k", b"2", s.ask("create", "k", b"1").version, contended=True).status


def update_weak(s):
    return s.ask("update", "k", b"2", f"W/{s.ask('create', 'k', b'1').version}").status


def update_aba(s):
    """A was read; then came B, and A again."""
    version = s.ask("put", "k", b"A").version
    s.ask("put", "k", b"B")
    s.ask("put", "k", b"A")
    return s.ask("update", "k", b"C", version).status


def get_missing(s):
    return s.ask("get", "k").status


def head_missing(s):
    return s.ask("head", "k").status


def get_unchanged(s):
    return s.ask("get_if_changed", "k", b"", s.ask("create", "k", b"1").version).status


def get_changed(s):
    version = s.ask("create", "k", b"1").version
    s.ask("put", "k", b"2")
    return s.ask("get_if_changed", "k", b"", version).status


def get_weak(s):
    return s.ask("get_if_changed", "k", b"", f"W/{s.ask('create', 'k', b'1').version}").status


def get_requoted(s):
    version = s.ask("create", "k", b"1").version
    return s.ask("get_if_changed", "k", b"", version.strip('"') if version[0] == '"' else f'"{version}"').status


def get_recreated(s):
    """Ask for an object that was deleted and created again with the same bytes."""
    version = s.ask("create", "k", b"1").version
    s.ask("delete", "k")
    s.ask("create", "k", b"1")
    return s.ask("get_if_changed", "k", b"", version).status


def version(s):
    versions = [s.ask("put", "k", body).version for body in (b"A", b"B", b"A")]
    if versions[0] == versions[2] != versions[1]:
        return "digest"
    assert len(set(versions)) == 3
    return "generation" if all(v.isdigit() for v in versions) and sorted(versions, key=int) == versions else "random"


def delete_there(s):
    s.ask("create", "k", b"1")
    return s.ask("delete", "k").status


def delete_missing(s):
    return s.ask("delete", "k").status


def delete_many(s):
    sizes = (1001, 1000, 999, 257, 256, 255, 101, 100, 99)
    return next(size for size in sizes if s.delete_many([str(number) for number in range(size)]).status == 200)


def delete_many_each(s):
    s.ask("create", "a")
    statuses = [status for _, status in s.delete_many(["a", "b"]).answer]
    assert s.ask("get", "a").status == 404
    return "/".join(map(str, statuses))


def page_size(s):
    s.fill([f"k/{number:04}" for number in range(s.many)])
    page = s.ask("list", "k/").answer
    assert page.truncated
    return len(page.entries)


def list_order(s):
    keys = [f"k/{letter}" for letter in "bcdaefgh-!0"]  # "k/." and "k//" are no names where keys are files
    s.fill(keys)
    found = [entry.key for entry in s.ask("list", "k/").answer.entries]
    assert sorted(found) == sorted(keys)
    return "key" if found == sorted(keys) else "none"


def last_modified(s, op="head"):
    while not 200 < s.now_ms % 1000 < 950:  # of a real server: it must not be a whole second by chance
        time.sleep(0.05)
    asked_ms = s.now_ms
    s.ask("create", "k", b"1")
    found = s.ask(op, "k").answer
    modified_ms = (found.entries[0] if op == "list" else found).last_modified_ms
    assert abs(modified_ms - asked_ms) < 3000
    return "s" if modified_ms % 1000 == 0 else "ms" if 0 <= modified_ms - asked_ms <= s.late_ms else "?"


def last_modified_list(s):
    return last_modified(s, "list")


# What only a store of one's own can be asked:


def throttled(s):
    """The second of two mutations of one object in one moment, where that is one too many."""
    s = s.changed(mutation_gap_ms=1)
    return [s.store.apply("put", key, b"", "", NOW_MS).status for key in "aba"][2]


def mutation_gap(s):
    """Return the least gap in ms after which the store accepts another mutation of an object, of any kind."""
    for gap_ms in (0, 1, 999, 1000, 1001):
        s = s.changed()
        replies = [s.store.apply("put", "k", b"", "", NOW_MS), s.store.apply("delete", "k", b"", "", NOW_MS + gap_ms),
                   s.store.apply("create", "k", b"", "", NOW_MS + 2 * gap_ms)]
        assert s.store.apply("get", "k", b"", "", NOW_MS + 2 * gap_ms).status == 200
        if [reply.status for reply in replies] == [200, 204, 200]:
            return gap_ms


def empty_page(s):
    s.ask("create", "k/1")
    s.store.choose, s.store._special = lambda site, bound: int(site == "list.empty"), True
    page = s.ask("list", "k/").answer
    return "yes" if page == Page((), True) else "no"


def lag(s, op):
    """Return the largest number of changes by which a read may be behind."""
    s = Simulated(s.profile)
    s.store.choose, s.store._special = lambda site, bound: (bound - 1) * (site == f"store.stale.{op}"), True
    for number in range(9):
        s.ask("put", "j", b"%d" % number)
    for number in range(9):
        s.ask("create", f"k/{number}")
    return 9 - len(s.ask("list", "k/").answer.entries) if op == "list" else 8 - int(s.ask(op, "j").body or b"-1")


def stale_get(s):
    return lag(s, "get")


def stale_list(s):
    return lag(s, "list")


def unlike(value: object) -> object:
    """Another value of its kind."""
    words = {"digest": "random", "random": "generation", "generation": "digest", 304: 200, 200: 304}
    return words.get(value) or (not value if isinstance(value, bool) else value + 1)


def with_another(profile: Profile, field: str) -> Profile:
    value = getattr(profile, field)
    return profile._replace(**{field: 409 - value if field.endswith("contended") else unlike(value)})


CASES = {case.__name__: case for case in (
    create_new, create_exists, create_contended, put_contended, update_current, update_stale, update_missing, update_contended,
    update_weak, update_aba, get_missing, head_missing, get_unchanged, get_changed, get_weak, get_requoted, get_recreated,
    version, delete_there, delete_missing, delete_many, delete_many_each, page_size, list_order, last_modified,
    last_modified_list, throttled, mutation_gap, empty_page, stale_get, stale_list)}
OF_THE_SIMULATED = {"create_contended", "put_contended", "update_contended", "throttled", "mutation_gap", "empty_page",
                    "stale_get", "stale_list"}

# --- The table, typed by hand: a datum that is changed must be changed here too.

TABLE = """
                    s3      s3express gcs        azure   r2      minio25 minio24 ceph    mountx  rfc9110 eventual
create_new          200     200       200        200     200     200     200     200     200     200     200
create_exists       412     412       412        409     412     412     304     412     200     412     412
create_contended    409     409       200        200     200     200     200     200     200     200     409
put_contended       200     200       200        200     200     200     200     200     200     200     200
update_current      200     200       200        200     200     200     200     200     200     200     200
update_stale        412     412       412        412     412     412     412     412     200     412     412
update_missing      404     404       412        412     412     200     200     412     200     412     404
update_contended    409     409       200        200     200     200     200     200     200     200     409
update_weak         412     412       412        412     412     412     412     412     200     412     412
update_aba          200     412       412        412     200     200     200     200     200     412     200
get_missing         404     404       404        404     404     404     404     404     404     404     404
head_missing        404     404       404        404     404     404     404     404     404     404     404
get_unchanged       304     304       304        304     304     304     304     304     304     304     304
get_changed         200     200       200        200     200     200     200     200     200     200     200
get_weak            304     304       200        304     304     304     304     304     304     304     304
get_requoted        304     304       304        304     304     304     304     304     304     200     304
get_recreated       304     200       200        200     304     304     304     304     304     200     304
version             digest  random    generation random  digest  digest  digest  digest  digest  random  digest
delete_there        204     204       204        204     204     204     204     204     204     204     204
delete_missing      204     204       404        404     204     204     204     204     204     404     204
delete_many         1000    1000      100        256     1000    1000    1000    1000    1000    1000    1000
delete_many_each    204/204 204/204   204/204    204/204 204/204 204/204 204/204 204/204 204/204 204/204 204/204
page_size           1000    1000      1000       5000    1000    1000    1000    1000    1000    1000    1000
list_order          key     none      key        key     key     key     key     key     key     key     key
last_modified       s       s         ms         s       s       s       s       s       s       s       s
last_modified_list  s       s         ms         s       s       s       s       s       s       s       s
throttled           503     503       429        503     429     503     503     503     503     503     503
mutation_gap        0       0         1000       0       1000    0       0       0       0       0       0
empty_page          yes     yes       yes        yes     no      no      no      no      no      no      yes
stale_get           0       0         0          0       0       0       0       0       0       0       3
stale_list          0       0         0          0       0       0       0       0       0       0       3
"""
ROWS = {row[0]: row[1:] for row in map(str.split, TABLE.strip().splitlines()[1:])}
CELLS = {(name, case): row[number] for case, row in ROWS.items() for number, name in enumerate(PROFILES)}


def test_the_table_is_whole():
    assert list(ROWS) == list(CASES)
    assert all(len(row) == len(PROFILES) for row in ROWS.values())
    assert list(PROFILES) == ["s3", "s3express", "gcs", "azure", "r2", "minio-2025-08", "minio-2024-03", "ceph",
                              "mountx-2026-08", "strict-rfc9110", "eventual"]
    for name, profile in PROFILES.items():
        assert name == profile.name
        assert set(profile.unverified) <= set(Profile._fields) - {"name", "unverified"}, name
        assert len(set(profile.unverified)) == len(profile.unverified), name


@pytest.mark.parametrize("name, case", CELLS)
def test_a_simulated_store_answers_as_its_profile(name, case):
    assert str(CASES[case](Simulated(PROFILES[name]))) == CELLS[name, case]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("field", [field for field in Profile._fields if field not in ("name", "unverified")])
def test_every_datum_matters(name, field):
    """Changing any entry of a profile makes the table fail."""
    profile = with_another(PROFILES[name], field)

    def holds(case):
        try:
            return str(CASES[case](Simulated(profile))) == CELLS[name, case]
        except AssertionError:
            return False

    assert not all(holds(case) for case in sorted(CASES, key="page_size".__eq__))  # the slow one last


# --- What a store is free to do


def test_without_choices_a_store_does_the_mildest():
    def mildest(site, bound):
        return 0

    for profile in PROFILES.values():
        answers = []
        for choose in (None, mildest):
            store = SimulatedStore(2, scaled(profile, 1), choose)
            for number in range(5):
                store.apply("put", "k/a", b"%d" % number, "", 10 * number)
                store.apply("create", f"k/{number}", b"", "", 10 * number)
            asked = [store.apply(op, key, b"", "", 99) for op in ("get", "head", "list") for key in ("k/a", "k/")]
            answers.append((asked, store.delete_many(["k/1", "no"], 99)))
        assert answers[0] == answers[1]


def test_every_choice_is_labelled_and_bounded():
    seen = {}

    def choose(site, bound):
        seen.setdefault(site, set()).add(bound)
        return bound - 1

    store = SimulatedStore(profile=PROFILES["eventual"], choose=choose)
    for number in range(5):
        store.apply("put", "k", b"%d" % number, "", number)
        for op in READS:
            store.apply(op, "k", b"", "bytes=0-9" if op == "get_range" else "", number)
    assert store.delete_many(["k"], 9).answer == (("k", 500),) and "k" in store.objects
    assert seen == {**{f"store.stale.{op}": {2, 3, 4} for op in READS}, "delete_many.failed": {2}}
    store = SimulatedStore(choose=choose)
    store.apply("list", "k", b"", "", 9)
    assert seen["list.empty"] == {2}


def test_conditions_of_a_store_that_lags_behind_do_not():
    store = SimulatedStore(profile=PROFILES["eventual"], choose=lambda site, bound: bound - 1)
    versions = [store.apply("put", "k", b"%d" % number, "", 0).version for number in range(3)]
    assert store.apply("get", "k", b"", "", 0).status == 404  # as before the first of three changes
    assert store.apply("create", "k", b"", "", 0).status == 412
    assert [store.apply("update", "k", b"9", version, 0).status for version in versions] == [412, 412, 200]


def test_pages_of_a_store_without_order_join_up_and_the_seam_refuses_them():
    """A listing of several pages goes on after the last key: in a store that has no order it ends with an error, not early."""
    store, keys = SimulatedStore(2, PROFILES["s3express"]), [f"k/{number}" for number in range(9)]
    for key in keys:
        store.apply("create", key, b"", "", 0)
    found, after, page = [], "", Page((), True)
    while page.truncated:
        page = store.apply("list", "k/", b"", after, 0).answer
        found += [entry.key for entry in page.entries]
        after = found[-1]
    assert sorted(found) == keys and found != keys

    class Seam:
        async def list_page(self, prefix, after=""):
            return store.apply("list", prefix, b"", after, 0).answer

    with pytest.raises(Definite, match="brings no further key"):
        asyncio.run(list_all(Seam(), "k/"))


def test_a_second_of_a_store_is_as_long_as_a_run_needs():
    gcs = scaled(PROFILES["gcs"], 50)
    assert (gcs.mutation_gap_ms, gcs.last_modified_ms) == (50, 1)
    assert (S3_IN_MS.last_modified_ms, scaled(S3, 20).last_modified_ms) == (1, 20)
    assert SimulatedStore().profile == S3._replace(last_modified_ms=1) and SimulatedStore(7).page_size == 7


# --- Real servers

SERVER = os.environ.get("HIGHWATER_S3_ENDPOINT")  # its credentials and region: as ever, AWS_*
CREDENTIALS = {name: os.environ.get(name.upper()) for name in ("aws_access_key_id", "aws_secret_access_key")}
DIVERGES = {  # server -> case -> its response, and why the profile is still right
    "moto": {
        "get_weak": ("200", "it compares the text; RFC 9110 has weak comparison here, and S3 was not asked"),
        "delete_many": ("1001", "it takes any number of keys; the API reference of S3 says 1000"),
    },
    "versitygw": {
        "get_weak": ("200", "as moto"),
        "delete_many": ("1001", "as moto"),
    },
    "minio": {},
    "server": {},
}
buckets = itertools.count()


class Http:
    """Asks a server with the S3 API, once for each request; `mark` keeps the keys of each case to itself."""

    many, late_ms = 1001, 3000

    def __init__(self, client, bucket: str, mark: str):
        self.client, self.bucket, self.mark = client, bucket, f"{mark}/"

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def ask(self, op: str, key: str, body: bytes = b"", condition: str = "") -> Reply:
        where = {"Bucket": self.bucket, "Key": self.mark + key}
        try:
            return getattr(self, f"_{op}")(where, body, condition)
        except ClientError as error:
            return Reply(s3.status_of(error))

    def _create(self, where, body, condition):
        return self._put(where, body, condition, IfNoneMatch="*")

    def _update(self, where, body, condition):
        return self._put(where, body, condition, IfMatch=condition)

    def _put(self, where, body, condition, **header):
        return Reply(200, self.client.put_object(**where, Body=body, **header)["ETag"])

    def _get(self, where, body, condition, **header):
        reply = self.client.get_object(**where, **header)
        return Reply(200, reply["ETag"], reply["Body"].read())

    def _get_if_changed(self, where, body, condition):
        return self._get(where, body, condition, IfNoneMatch=condition)

    def _head(self, where, body, condition):
        reply = self.client.head_object(**where)
        return Reply(200, reply["ETag"], b"", SimpleNamespace(last_modified_ms=s3.to_ms(reply["LastModified"])))

    def _delete(self, where, body, condition):
        return Reply(self.client.delete_object(**where)["ResponseMetadata"]["HTTPStatusCode"])

    def _list(self, where, body, condition):
        reply = self.client.list_objects_v2(Bucket=where["Bucket"], Prefix=where["Key"])
        entries = [SimpleNamespace(key=found["Key"].removeprefix(self.mark), last_modified_ms=s3.to_ms(found["LastModified"]))
                   for found in reply.get("Contents", ())]
        return Reply(200, answer=SimpleNamespace(entries=entries, truncated=reply["IsTruncated"]))

    def delete_many(self, keys: list[str]) -> Reply:
        keys = [self.mark + key for key in keys]
        try:
            reply = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in keys]})
        except ClientError as error:
            return Reply(s3.status_of(error))
        done = {found["Key"] for found in reply.get("Deleted", ())}
        return Reply(200, answer=tuple((key, 204 if key in done else 500) for key in keys))

    def fill(self, keys: list[str]) -> None:
        for key in keys:
            self.ask("create", key)


@pytest.fixture(scope="module", params=[*SERVERS, *["server"] * bool(SERVER)])
def server(request):
    """Yield a server's name, a client and a bucket."""
    url = SERVER if request.param == "server" else request.getfixturevalue(f"{request.param}_url")
    credentials = CREDENTIALS if request.param == "server" else {}
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"},
                    request_checksum_calculation="when_required", response_checksum_validation="when_required")
    client = boto3.session.Session(region_name="us-east-1").client("s3", endpoint_url=url, config=config, **credentials)
    bucket = f"profiles-{os.getpid()}-{time.time_ns()}"
    client.create_bucket(Bucket=bucket)
    return request.param, client, bucket


@pytest.mark.parametrize("case", [case for case in CASES if case not in OF_THE_SIMULATED])
def test_a_real_server_answers_as_the_profile_s3(server, case):
    name, client, bucket = server
    expected, why = DIVERGES[name].get(case, (CELLS["s3", case], ""))
    assert str(CASES[case](Http(client, bucket, case))) == expected, why


def test_divergences_are_told_with_a_reason_and_differ():
    for cases in DIVERGES.values():
        for case, (answer, why) in cases.items():
            assert answer != CELLS["s3", case] and why and case not in OF_THE_SIMULATED


# --- What a client makes of it

OPS = (*READS, "create", "update", "put", "delete")
STATUSES = (0, 301, 304, 400, 403, 404, 408, 409, 412, 416, 429, 500, 502, 503, 504)


class Answering:
    """A boto3 client whose every request is answered with one status."""

    meta = SimpleNamespace(config=Config(retries={"total_max_attempts": 1}), endpoint_url="http://nowhere")

    def __init__(self, op: str, status: int):
        self.op, self.status = op, status

    def answer(self, **_):
        if not self.status:
            raise ReadTimeoutError(endpoint_url="http://nowhere")
        bucket = self.status == 404 and self.op in ("create", "put", "list")
        raise ClientError({"Error": {"Code": "NoSuchBucket" if bucket else "NoSuchKey" if self.status == 404 else "Other"},
                           "ResponseMetadata": {"HTTPStatusCode": self.status}}, self.op)

    put_object = get_object = head_object = list_objects_v2 = delete_object = answer


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("status", STATUSES)
def test_the_s3_profiles_errors_are_those_of_the_s3_store(op, status, monkeypatch):
    if status == 304 and op in ("get", "get_range", "head", "list"):
        pytest.skip("nobody asked for it")
    monkeypatch.setattr(s3, "PAUSE_S", 0)
    store = S3Store(Answering(op, status), "bucket", ids=Ulids())
    arguments = {"create": (b"",), "put": (b"",), "update": (b"", "1"), "get_range": (0, 9),
                 "get_if_changed": ("1",)}.get(op, ())
    raised = None
    try:
        asyncio.run(getattr(store, {"list": "list_page"}.get(op, op))("k", *arguments))
    except Exception as error:
        raised = error
    assert type(raised) is type(error_of(S3, op, status, "k"))


@pytest.mark.parametrize("name, op, status, error", [
    ("s3", "get_range", 206, None), ("s3", "get_range", 416, BeyondEnd), ("s3", "get_range", 404, NotFound),
    ("s3", "create", 200, None), ("s3", "delete", 204, None), ("s3", "get_if_changed", 304, None),
    ("s3", "create", 412, AlreadyExists), ("s3", "create", 409, Unavailable), ("s3", "update", 409, Unavailable),
    ("azure", "create", 409, AlreadyExists), ("azure", "create", 412, AlreadyExists), ("azure", "update", 409, Unavailable),
    ("minio-2024-03", "create", 304, AlreadyExists), ("s3", "create", 304, Unavailable),
    ("s3", "update", 404, PreconditionFailed), ("gcs", "update", 412, PreconditionFailed),
    ("gcs", "put", 429, Unavailable), ("s3", "put", 503, OutcomeUnknown), ("s3", "get", 503, Unavailable),
    ("gcs", "delete", 404, None), ("s3", "get", 404, NotFound), ("s3", "list", 404, Unavailable),
    ("s3", "put", 0, OutcomeUnknown), ("s3", "list", 0, Unavailable), ("s3", "delete", 500, OutcomeUnknown),
])
def test_what_a_status_means(name, op, status, error):
    found = error_of(PROFILES[name], op, status, "a/key")
    assert type(found) is (error or type(None))
    assert found is None or "a/key" in str(found)


def test_a_409_that_may_mean_either_means_the_less():
    both = PROFILES["azure"]._replace(create_contended=409)
    assert isinstance(error_of(both, "create", 409, "k"), Unavailable)


@pytest.mark.parametrize("name", PROFILES)
def test_a_definite_error_of_a_store_is_true(name):
    """A mutation that a store refuses did not happen: `Simulated` checks it. Every refusal has a definite error."""
    for case in ("create_exists", "create_contended", "update_stale", "update_missing", "update_contended", "throttled"):
        status = int(CASES[case](Simulated(PROFILES[name])))
        op = case.partition("_")[0] if case != "throttled" else "get"
        assert status == 200 or isinstance(error_of(PROFILES[name], op, status, "k"), Definite)
