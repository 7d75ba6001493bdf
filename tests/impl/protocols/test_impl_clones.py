"""impl/protocols/clones.py on the memory store: each call once, and whatever reply is lost."""

import pytest

from highwater.dst import script
from highwater.dst.scripts.clones import SCRIPTS


@pytest.mark.parametrize("of", SCRIPTS, ids=lambda of: of.__name__)
def test_script(of):
    assert script.failed((of,)) is None
