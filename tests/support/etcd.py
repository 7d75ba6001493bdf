"""The programs of tools/raft/etcd, which run etcd's Raft, and its module. Without Go a test is skipped."""

from pathlib import Path

from tests.support import go

SOURCES = Path(__file__).resolve().parents[2] / "tools" / "raft" / "etcd"
NAME, TRACED = "etcd's Raft", ("-tags", "with_tla", "./traced")


def commanded() -> Path:
    """Return the program that obeys commands."""
    return go.built(SOURCES, "etcd-raft", NAME)


def traced() -> Path:
    """Return the program that writes etcd's trace."""
    return go.built(SOURCES, "etcd-raft", NAME, *TRACED)


def traced_at(program: Path, sources: Path) -> str:
    """Build the latter from a copy of the sources. Return the end of what Go says if it cannot; "" if it can."""
    return go.built_at(program, sources, NAME, *TRACED)


def module() -> Path:
    return go.module(SOURCES, "go.etcd.io/raft/v3", NAME)
