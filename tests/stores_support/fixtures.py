"""Fixtures of empty stores for any test: put `pytest_plugins = ["stores_support.fixtures"]` at the top of its module.

    memory_stores, local_stores, moto_stores    one empty store a test, of that kind
    stores                                      the test runs once with each of the three

Each has `open(page_size=1000)`, another handle on the same store as another client would have one, and `kind`. Those of
local files and of moto can be pickled, so a worker process can open them too. moto starts once in a session, when the
first test asks for it (`moto_url`); where it cannot start, the tests that need it are skipped and say why.
"""

import functools
import itertools
import threading
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from impl.stores.s3 import S3Store, connect
from impl.stores.system import Ulids
from impl.world import ObjectStore
from stores_support.light import LocalStores, MemoryStores
from stores_support.moto_server import CannotStart, moto_server, put_unsigned

bucket_numbers = itertools.count()


class MotoStores(NamedTuple):
    url: str
    bucket: str
    kind = "moto"

    def open(self, page_size: int = 1000, **timeouts_s: float) -> ObjectStore:
        client = client_of(threading.get_ident(), self.url, **timeouts_s)
        return S3Store(client, self.bucket, "some/prefix", ids=Ulids(), page_size=page_size)


@functools.lru_cache(100)
def client_of(thread: int, url: str, **timeouts_s: float) -> Any:
    """One client a thread, for boto3 takes 0.1 s to make one."""
    return connect(url, **timeouts_s)


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment.delenv(name, raising=False)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "test")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        try:
            with moto_server() as url:
                yield url
        except CannotStart as error:
            warnings.warn(f"tests of S3 are SKIPPED: {error}", stacklevel=1)
            pytest.skip(str(error))


@pytest.fixture
def memory_stores() -> MemoryStores:
    return MemoryStores()


@pytest.fixture
def local_stores(tmp_path) -> LocalStores:
    return LocalStores(str(tmp_path / "store"))


@pytest.fixture
def moto_stores(moto_url) -> MotoStores:
    bucket = f"bucket-{next(bucket_numbers)}"
    put_unsigned(moto_url, f"/{bucket}")
    return MotoStores(moto_url, bucket)


@pytest.fixture(params=["memory", "local", "moto"])
def stores(request) -> MemoryStores | LocalStores | MotoStores:
    return request.getfixturevalue(f"{request.param}_stores")
