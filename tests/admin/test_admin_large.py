"""Checks of large databases: time and memory in proportion to their size, and few lines of output."""

import time

import pytest

from highwater.admin.check import CHECKS
from highwater.admin.database import Boundary, Database, File
from tests.admin.test_admin import manifests
from tests.support.slatedb.damaged import NOW_MS

MANY = 40_000


@pytest.mark.parametrize("boundary, step", [(0, 1), (MANY - 1, 1), (0, 2)], ids=["ahead", "behind", "gaps"])
def test_checks_of_many_manifests_take_linear_time(boundary, step):
    """A quadratic check takes a minute."""
    value = manifests()[8]._replace(checkpoints=())
    files = tuple(File(number, number, 1, 2, value) for number in range(1, MANY, step))
    database = Database("", files, (), {"manifest": Boundary(boundary), "compactions": Boundary(0)}, (), {}, (), False)
    began_s = time.process_time()
    for check in CHECKS:
        for _ in check(database, {}, NOW_MS):
            pass
    assert time.process_time() - began_s < 3
