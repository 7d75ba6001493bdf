"""Words of error messages: the line of a protocol's module that raised an exception, and the name that a user meant.

A mistake in a user's module is one line: the file, the line and what happened. `mistakes` is around every verb, and around
what a verb runs in another process.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from traceback import walk_tb
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from highwater import project
from highwater.interrupt import is_by_signal

JUDGES = ("scenario", "mapping", "model")  # parts that judge a run: an exception of theirs says nothing of the implementation
MACHINERY = "highwater.model.proofs.engine."  # below a room of protocols
CALLED = re.compile(r"(?P<name>[\w.<>]+)\(\) (takes|missing|got)")  # the message of a call with wrong arguments


class Place(NamedTuple):
    part: str  # of a protocol: a name of project.PARTS, or of another module of a user's package
    file: str
    line: int

    def __str__(self) -> str:
        """Return the line without the path of the machine: PACKAGE/mapping.py:12."""
        return f"{'/'.join(Path(self.file).parts[-2:])}:{self.line}"


def part_of(module: str) -> str:
    """Return which part of a protocol a module is; "" for a module of highwater's own machinery or of a library."""
    for package in project.users().values():
        if module.startswith(f"{package}."):
            return module.removeprefix(f"{package}.")
    rooms = {"impl": "impl", **{part: of.room for part, of in project.PARTS.items() if part != "impl"}}
    ours = "" if module.startswith(MACHINERY) else module
    return next((part for part, room in rooms.items() if ours.startswith(f"highwater.{room}.")), "")


def place(error: BaseException) -> Place | None:
    """Return the innermost line of a protocol's module that raised an exception; None if there is none.

    If a function was called with arguments that it does not take, this is the line of its definition, unless a protocol's
    module called it."""
    frames = list(walk_tb(error.__traceback__))
    places = [Place(part, frame.f_code.co_filename, line) for frame, line in frames
              if (part := part_of(frame.f_globals.get("__name__", "")))]
    if frames and (not places or places[-1].file != frames[-1][0].f_code.co_filename):
        places += called(error, [frame for frame, _ in frames])
    return places[-1] if places else None


def called(error: BaseException, frames: list[FrameType]) -> list[Place]:
    """Return the definition of a protocol's function whose call failed because it does not take the arguments; else []."""
    told = CALLED.match(str(error)) if isinstance(error, TypeError) else None
    functions = [each for frame in reversed(frames) for each in functions_in(frame.f_locals.values())] if told else []
    return [Place(part_of(each.__module__), each.__code__.co_filename, each.__code__.co_firstlineno) for each in functions
            if told and each.__qualname__ == told["name"] and part_of(each.__module__)][:1]


def functions_in(values: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the functions among these values, and in the dictionaries, tuples and protocols' modules among them."""
    for value in values:
        if isinstance(function := getattr(value, "__func__", value), FunctionType):
            yield function
        elif isinstance(value, dict):
            yield from functions_in(value.values())
        elif isinstance(value, tuple):
            yield from functions_in(value)
        elif isinstance(value, ModuleType) and part_of(value.__name__):
            yield from (each for each in vars(value).values() if isinstance(each, FunctionType))


def mistake(error: BaseException) -> str:
    """Return, in one line, what is wrong in a user's module; "" if no line of one raised this."""
    where = place(error)
    if not where or not any(Path(where.file).is_relative_to(project.folder_of(stem)) for stem in project.users()):
        return ""
    return f"{project.type_and_message(error)} ({where.file}:{where.line})"


@contextmanager
def mistakes() -> Generator[None, None, None]:
    """Raise ProjectError, whose message is one line, for an exception of a user's module. All others keep their traceback."""
    try:
        yield
    except project.ProjectError:
        raise
    except BaseException as error:
        if is_by_signal(error):
            raise
        said = ""
        with suppress(project.ProjectError):  # of a project that cannot be read no module was imported
            said = mistake(error)
        if said:
            raise project.ProjectError(said) from error
        raise


def meant(name: str, known: Iterable[str]) -> str:
    """Return, in brackets and after a space, the known name that is most like this one; "" if none is."""
    like = get_close_matches(name, list(known), 1)
    return f" (did you mean {like[0]!r}?)" if like else ""
