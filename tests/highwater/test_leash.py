"""Ports that processes beside each other are given."""

import subprocess
import sys
from unittest.mock import Mock

from highwater.servers import leash

GIVES = """
import sys
from highwater.servers import leash
print(leash.free_port(), flush=True)
sys.stdin.read()
"""


def test_a_port_is_given_to_one_process_only(monkeypatch):
    """Nobody listens there yet. When the process has ended, another one may have it."""
    ours = leash.free_port()
    with subprocess.Popen([sys.executable, "-c", GIVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        monkeypatch.setattr(leash, "GIVEN", set())
        monkeypatch.setattr(leash, "SystemRandom", Mock(return_value=Mock(randrange=Mock(side_effect=[theirs, ours]))))
        assert leash.free_port() == ours
        other.communicate("")
    monkeypatch.setattr(leash, "SystemRandom", Mock(return_value=Mock(randrange=Mock(side_effect=[ours, theirs]))))
    assert leash.free_port() == theirs
