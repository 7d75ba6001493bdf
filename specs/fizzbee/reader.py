"""Read the text of a .fizz file: its claim, constants, roles, actions, functions and assertions, each with its line.

This is the only reader of .fizz text. It goes by lines and their indentation, which is enough for names, modifiers, choices and
the text of a block. FizzBee decides what a block means, and whether the file is well formed. Unknown text is skipped. Lines
are counted from 1. A block ends before the next line that is indented no deeper than its header. Blank lines and comments do
not end a block.
"""

import ast
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

CONSTANT = re.compile(r"([^\W\d]\w*)[ \t]*=(?!=)(.*)")
MODIFIER = r"(?:atomic|serial|parallel|oneof|symmetric|fair(?:<\w+>)?|always|eventually|exists|transition)"
HEADER = re.compile(rf"\s*((?:{MODIFIER}[ \t]+)*)(role|action|func|def|assertion)[ \t]+(\w+)[ \t]*(?=[:(#]|$)")
CHOICE = re.compile(r"\s+(\w+) = oneof ")
ASSIGNED = re.compile(r"\s+((?:self\.)?\w+) = ")


class Block(NamedTuple):
    """A role, an action, a function or an assertion."""

    kind: str  # role | action | func | def | assertion
    name: str
    role: str  # the role that it stands in; "" at the top level
    modifiers: tuple[str, ...]  # the words before the kind: ("atomic", "fair")
    line: int  # of the header
    until: int  # the line after the block, and after the blank lines and comments that follow it
    text: str  # dedented, without blank lines and comments behind it
    doc: tuple[str, ...]  # the comment lines right above the header

    @property
    def atomic(self) -> bool:
        return "atomic" in self.modifiers

    @property
    def fair(self) -> bool:
        """Whether an action is weakly fair."""
        return "fair" in self.modifiers

    @property
    def eventually(self) -> bool:
        """Whether an assertion is one of liveness."""
        return "eventually" in self.modifiers

    @property
    def choices(self) -> tuple[str, ...]:
        """The variables that the block's `oneof` choices are bound to, in their order."""
        return tuple(match[1] for line in self.text.split("\n") if (match := CHOICE.match(line)))

    @property
    def assigned(self) -> tuple[str, ...]:
        """The names assigned at the block's first level of indentation, `self.` included, each once."""
        lines = self.text.split("\n")[1:]
        depth = min((indentation(line) for line in lines if stands(line)), default=0)
        found = (ASSIGNED.match(line) for line in lines if indentation(line) == depth)
        return tuple(dict.fromkeys(match[1] for match in found if match))


class Constant(NamedTuple):
    """A top-level `NAME = ...`."""

    name: str
    line: int
    source: str  # what stands behind the `=`, a comment included

    @property
    def on_one_line(self) -> bool:
        try:
            return bool(ast.parse(self.source.strip(), mode="eval"))
        except SyntaxError:
            return False

    @property
    def plain(self) -> bool:
        """Whether its value is written out, not computed."""
        try:
            ast.literal_eval(self.source.strip())
            return True
        except (ValueError, SyntaxError):
            return False

    @property
    def value(self) -> object:
        """The value. Raises ValueError or SyntaxError for a constant that is not plain."""
        return ast.literal_eval(self.source.strip())


class Spec(NamedTuple):
    text: str
    claim: str  # the first paragraph of the comments in the front matter, on one line; "" for none
    constants: tuple[Constant, ...]
    blocks: tuple[Block, ...]  # in the order of their headers: what stands in a role comes behind it

    @property
    def roles(self) -> tuple[Block, ...]:
        return self._of("role")

    @property
    def actions(self) -> tuple[Block, ...]:
        """The actions of all roles and of the top level, Init included."""
        return self._of("action")

    @property
    def functions(self) -> tuple[Block, ...]:
        return self._of("def", "func")

    @property
    def assertions(self) -> tuple[Block, ...]:
        return self._of("assertion")

    @property
    def values(self) -> dict[str, object]:
        """The constants whose values are written out, not computed."""
        return {constant.name: constant.value for constant in self.constants if constant.plain}

    @property
    def symmetric(self) -> bool:
        """Whether the spec may ask for symmetry reduction: whether it has the word."""
        return bool(re.search(r"symmetric|symmetry", self.text))

    def action(self, role: str, name: str) -> Block | None:
        """Return the action, or None. `role`: "" is the top level."""
        return next((block for block in self.actions if (block.role, block.name) == (role, name)), None)

    def assertion(self, name: str) -> Block | None:
        return next((block for block in self.assertions if block.name == name), None)

    def _of(self, *kinds: str) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.kind in kinds)


def read(text: str) -> Spec:
    lines = text.split("\n")
    start = after_front_matter(lines)
    return Spec(text, claim_in(lines[:start]), tuple(constants_in(lines, start)), tuple(blocks_in(lines, start)))


def stands(line: str) -> bool:
    """Return whether the line has anything but a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def after_front_matter(lines: list[str]) -> int:
    """Return the index of the first line after the front matter; 0 if there is none."""
    if lines[0].rstrip() != "---":
        return 0
    return next((at + 1 for at, line in enumerate(lines) if at and line.rstrip() == "---"), 0)


def claim_in(front: list[str]) -> str:
    words = []
    for line in front[1:]:
        if not line.startswith("# "):
            break
        words.append(line[2:].strip())
    return " ".join(words)


def constants_in(lines: list[str], start: int) -> Iterator[Constant]:
    for at in range(start, len(lines)):
        if match := CONSTANT.match(lines[at]):
            yield Constant(match[1], at + 1, match[2])


def blocks_in(lines: list[str], start: int) -> Iterator[Block]:
    role = ""
    for at in range(start, len(lines)):
        line = lines[at]
        if not stands(line):
            continue
        match = HEADER.match(line)
        if not indentation(line):
            role = match[3] if match and match[2] == "role" else ""
        if match:
            last, until = end_of(lines, at)
            yield Block(match[2], match[3], role if indentation(line) else "", tuple(match[1].split()), at + 1, until + 1,
                        dedent("\n".join(lines[at:last + 1])).rstrip(), doc_of(lines, at))


def end_of(lines: list[str], at: int) -> tuple[int, int]:
    """Return the indexes of a block's last line and of the next line after it. `at`: the line of its header."""
    depth, last = indentation(lines[at]), at
    for here in range(at + 1, len(lines)):
        inside = indentation(lines[here]) > depth
        if stands(lines[here]) and not inside:
            return last, here
        if lines[here].strip() and inside:
            last = here
    return last, len(lines)


def doc_of(lines: list[str], at: int) -> tuple[str, ...]:
    """Return the comment lines right above a header, indented as it is; a heading, `# --- ..`, is not part of them."""
    said: list[str] = []
    margin = lines[at][:indentation(lines[at])] + "# "
    while at and lines[at - 1].startswith(margin) and not lines[at - 1].startswith(margin + "---"):
        at -= 1
        said.insert(0, lines[at][len(margin):].strip())
    return tuple(said)
