"""Key names. Sequenced files are `<root>/<folder>/<id, 20 digits>.<suffix>`, boundaries `<root>/gc/<name>.boundary`."""

from functools import lru_cache

from highwater.impl.errors import Definite

DIGITS = 20  # enough for every u64
U64 = 1 << 64
LEAST_TOO_LARGE = str(U64)  # also of 20 digits, so that text compares as numbers do
LATELY = 10_000  # names that are remembered: every listing brings the same ones again
SUFFIXES = {"wal": ".sst"}  # elsewhere the folder's own name


class Namespace:
    """One sequence of files. `name` is the folder's, and the boundary's: "manifest", "compactions", "wal"."""

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
        """Raises InvalidId for what is no u64."""
        if not 0 <= file_id < U64:
            raise InvalidId(f"id {file_id} is not in 0 .. 2^64 - 1: the namespace {self.prefix!r} is used up")
        return f"{self.prefix}{file_id:020d}{self.suffix}"

    def file_id(self, key: str) -> int | None:
        """The id that a key of this namespace names; None for a key with another suffix, which is none of ours.

        Raises InvalidName for a key with our suffix that is not 20 digits: to skip it could hide the latest file, and
        to take it for its number would have everyone ask for a name that is not there.
        """
        if not key.endswith(self.suffix):
            return None
        digits = key[self._start:self._end]
        if len(key) == self._length and digits.isdigit() and digits.isascii() and digits < LEAST_TOO_LARGE:
            return int(digits)
        raise InvalidName(key)


class InvalidId(Definite):
    """An id that no file can have."""


class InvalidName(Definite):
    """A key with the suffix of a namespace that names no id."""

    def __init__(self, key: str):
        self.key = key
        super().__init__(f"{key!r} has the suffix of sequenced metadata, but its name is not a u64 of {DIGITS} digits: "
                         "move it out of the folder, nobody can tell which id it is")
