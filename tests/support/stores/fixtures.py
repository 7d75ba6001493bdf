"""Fixtures of empty stores for any test; put `pytest_plugins = ["tests.support.stores.fixtures"]` at the top of its module.

    memory_stores, local_stores, moto_stores, versitygw_stores    one empty store of that kind for each test
    stores                                                        the test runs once with each of them
    s3_stores                                                     with each that is S3

Each has `open(page_size=1000)`, which returns another client's handle on the same store, `kind`, and `s3`: whether it is behind
S3. Stores in local files and in S3 can be pickled, so a worker process can open them too. A server starts once in a session,
when the first test needs it (`moto_url`, `versitygw_url`). If it cannot start, the tests that need it are skipped and say why.
MinIO is added if it has been built.
"""

import functools
import itertools
import threading
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.impl.world import ObjectStore
from highwater.servers.leash import CannotStart
from highwater.servers.s3 import KEY, SECRET
from tests.support.stores.light import LocalStores, MemoryStores
from tests.support.stores.s3_servers import SERVERS, s3_server

bucket_numbers = itertools.count()


class S3Stores(NamedTuple):
    url: str
    bucket: str
    kind: str
    s3 = True

    def open(self, page_size: int = 1000, **timeouts_s: float) -> ObjectStore:
        client = client_of(threading.get_ident(), self.url, **timeouts_s)
        return S3Store(client, self.bucket, "some/prefix", ids=Ulids(), page_size=page_size)


@functools.lru_cache(100)
def client_of(thread: int, url: str, **timeouts_s: float) -> Any:
    """One client a thread, for boto3 takes 0.1 s to make one."""
    return connect(url, **timeouts_s)


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment.delenv(name, raising=False)
        environment.setenv("AWS_ACCESS_KEY_ID", KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


def started(server: Any) -> Iterator[str]:
    """The URL of a server, or a skip that says why."""
    try:
        with server as url:
            yield url
    except CannotStart as error:
        warnings.warn(f"tests of S3 are SKIPPED: {error}", stacklevel=1)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def moto_url(s3_environment) -> Iterator[str]:
    yield from started(s3_server("moto"))


@pytest.fixture(scope="session")
def versitygw_url(s3_environment) -> Iterator[str]:
    yield from started(s3_server("versitygw"))


@pytest.fixture(scope="session")
def minio_url(s3_environment) -> Iterator[str]:
    yield from started(s3_server("minio"))


def in_new_bucket(url: str, kind: str) -> S3Stores:
    bucket = f"bucket-{next(bucket_numbers)}"
    client_of(threading.get_ident(), url).create_bucket(Bucket=bucket)
    return S3Stores(url, bucket, kind)


@pytest.fixture
def memory_stores() -> MemoryStores:
    return MemoryStores()


@pytest.fixture
def local_stores(tmp_path) -> LocalStores:
    return LocalStores(str(tmp_path / "store"))


@pytest.fixture
def moto_stores(moto_url) -> S3Stores:
    return in_new_bucket(moto_url, "moto")


@pytest.fixture
def versitygw_stores(versitygw_url) -> S3Stores:
    return in_new_bucket(versitygw_url, "versitygw")


@pytest.fixture
def minio_stores(minio_url) -> S3Stores:
    return in_new_bucket(minio_url, "minio")


@pytest.fixture(params=["memory", "local", *SERVERS])
def stores(request) -> MemoryStores | LocalStores | S3Stores:
    return request.getfixturevalue(f"{request.param}_stores")


@pytest.fixture(params=SERVERS)
def s3_stores(request) -> S3Stores:
    return request.getfixturevalue(f"{request.param}_stores")
