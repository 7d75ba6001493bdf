"""Names the keys: sequenced files are `<root>/<folder>/<id, 20 digits>.<suffix>`, boundaries `<root>/gc/<name>.boundary`, and
SSTs `<root>/compacted/<ULID>.sst`."""

import re
from functools import lru_cache

from highwater.impl.errors import Definite

DIGITS = 20  # enough for every u64
U64 = 1 << 64
LEAST_TOO_LARGE = str(U64)  # it has 20 digits, too, so that texts compare as numbers do
LATELY = 10_000  # size of the cache of names: every listing returns the same names again
SST = ".sst"
ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
SUFFIXES = {"wal": SST}  # for any other folder the suffix is the folder's name


class Namespace:
    """The keys of one sequence of files. `name` is the name of the folder and of the boundary: "manifest", "compactions",
    "wal"."""

    def __init__(self, root: str, name: str):
        folder = f"{root}/" if root else ""
        self.name = name
        self.prefix = f"{folder}{name}/"
        self.suffix = SUFFIXES.get(name, f".{name}")
        self.boundary_key = f"{folder}gc/{name}.boundary"
        self._start, self._end = len(self.prefix), len(self.prefix) + DIGITS
        self._length = self._end + len(self.suffix)
        self.key, self.file_id = lru_cache(LATELY)(self.key), lru_cache(LATELY)(self.file_id)

    def key(self, file_id: int) -> str:
        """Return the key of a file. Raises InvalidId if the id is not a u64."""
        if not 0 <= file_id < U64:
            raise InvalidId(f"id {file_id} is not in 0 .. 2^64 - 1: the namespace {self.prefix!r} is used up")
        return f"{self.prefix}{file_id:020d}{self.suffix}"

    def file_id(self, key: str) -> int | None:
        """Return the id that a key of this namespace names; None for a key with another suffix, which is not a sequenced file.

        Raises InvalidName for a key with the suffix whose name is not 20 digits. Skipping it could hide the latest file.
        Reading it as a number would make every client ask for a key that does not exist.
        """
        if not key.endswith(self.suffix):
            return None
        digits = key[self._start:self._end]
        if len(key) == self._length and digits.isdigit() and digits.isascii() and digits < LEAST_TOO_LARGE:
            return int(digits)
        raise InvalidName(key)


# --- SSTs

def prefix_of_ssts(root: str) -> str:
    return f"{root}/compacted/" if root else "compacted/"


def key_of_sst(root: str, sst: str) -> str:
    """Return the key of the SST with this ULID."""
    return f"{prefix_of_ssts(root)}{sst}{SST}"


def sst_of(root: str, key: str) -> str | None:
    """Return the ULID that a key names; None for a key with another suffix or in another folder, which is not an SST.

    Raises InvalidName for a key with the suffix whose name is no ULID: nobody can tell how old it is.
    """
    folder = prefix_of_ssts(root)
    if not (key.startswith(folder) and key.endswith(SST)):
        return None
    name = key[len(folder):-len(SST)]
    if not ULID.fullmatch(name):
        raise InvalidName(key, "of an SST", "a ULID")
    return name


class InvalidId(Definite):
    """An id that no file can have."""


class InvalidName(Definite):
    """A key that has the suffix of a namespace but names no id."""

    def __init__(self, key: str, of: str = "of sequenced metadata", should: str = f"a u64 of {DIGITS} digits"):
        self.key = key
        super().__init__(f"{key!r} has the suffix {of}, but its name is not {should}, so its id is unclear: move it out of the "
                         "folder")
