"""Key names. Sequenced files are `<root>/<folder>/<id, 20 digits>.<suffix>`, boundaries `<root>/gc/<name>.boundary`."""

from typing import NamedTuple

from impl.errors import Definite

DIGITS = 20  # enough for every u64


class Namespace(NamedTuple):
    """One sequence of files."""

    root: str
    name: str  # "manifest": the folder; and the boundary's name

    @property
    def prefix(self) -> str:
        return f"{self.root}/{self.name}/" if self.root else f"{self.name}/"

    @property
    def suffix(self) -> str:
        return SUFFIXES.get(self.name, f".{self.name}")

    def key(self, file_id: int) -> str:
        return f"{self.prefix}{file_id:0{DIGITS}d}{self.suffix}"

    @property
    def boundary_key(self) -> str:
        return f"{self.root}/gc/{self.name}.boundary" if self.root else f"gc/{self.name}.boundary"

    def file_id(self, key: str) -> int | None:
        """The id that a key of this namespace names; None for a key with another suffix, which is none of ours.

        Raises InvalidName for a key with our suffix that is not 20 digits: to skip it could hide the latest file, and
        to take it for its number would have everyone ask for a name that is not there.
        """
        name = key.removeprefix(self.prefix)
        if not name.endswith(self.suffix):
            return None
        digits = name.removesuffix(self.suffix)
        if len(digits) != DIGITS or not (digits.isascii() and digits.isdigit()):
            raise InvalidName(key)
        return int(digits)


SUFFIXES = {"wal": ".sst"}


class InvalidName(Definite):
    def __init__(self, key: str):
        self.key = key
        super().__init__(f"{key!r} has the suffix of sequenced metadata, but its name is not {DIGITS} digits: "
                         "move it out of the folder, nobody can tell which id it is")
