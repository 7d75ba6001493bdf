"""Measure which statements of an implementation the simulation executes.

What it does not execute is listed with a reason: ours in unreached.toml beside this module, a project's in its highwater.toml,
as `[[unreached]]`. An entry names a statement by its file, its function and its text. It does not name the line, so it outlives
other edits.
"""

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from highwater import project
from highwater.mutate.units import Unit, units_of

OURS = Path(__file__).with_name("unreached.toml")
BLOCK = 100  # seeds of a scenario, between two looks at what is left


class Unreached(NamedTuple):
    """An entry of the list of statements that no simulated run executes."""

    file: str
    function: str
    line: str
    reason: str

    def is_of(self, unit: Unit) -> bool:
        return (self.file, self.function, self.line) == (unit.file, unit.function, unit.text)


def listed() -> list[Unreached]:
    """Return the listed statements. Raises ValueError if an entry lacks a field or has an unknown one."""
    settings = project.settings() if project.current() else tomllib.loads(OURS.read_text())
    try:
        return [Unreached(**entry) for entry in settings.get("unreached", ())]
    except TypeError as error:
        raise ValueError(f"[[unreached]] has the fields {', '.join(Unreached._fields)}: {error}") from None


class Recorder:
    """Records which units this thread executes between `start` and `stop`. A unit that was recorded once costs little more."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = {str(path.resolve()): name for name, path in files.items()}
        self.units = {name: units_of(name, path) for name, path in files.items()}
        self.left = {unit for codes in self.units.values() for lines in codes.values() for unit in lines.values()}
        self.codes: dict[int, tuple[CodeType, dict[int, Unit]]] = {}  # id of a code object -> it, and what is left of it
        self.names: dict[str, str] = {}  # a file of code that was met -> its name; "" for another file

    def start(self) -> None:
        sys.settrace(self.enter)

    def stop(self) -> None:
        sys.settrace(None)

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        known = self.codes.get(id(code))
        if known is None:
            lines = self.units.get(self.name_of(code), {}).get((code.co_qualname, code.co_firstlineno), {})
            known = self.codes[id(code)] = code, lines
        lines = known[1]
        if not lines:
            return None

        def line(frame: FrameType, event: str, _: Any) -> Any:
            unit = lines.get(frame.f_lineno)
            if unit is not None:
                self.left.discard(unit)
                for other in [number for number, of in lines.items() if of == unit]:
                    del lines[other]
            return line if lines else None

        return line(frame, event, _)

    def name_of(self, code: CodeType) -> str:
        path = code.co_filename
        if path not in self.names:
            self.names[path] = self.files.get(str(Path(path).resolve()), "")
        return self.names[path]


class Coverage(NamedTuple):
    units: list[Unit]
    left: list[Unit]  # those that no run executed
    unlisted: list[Unit]  # those of them that are not listed
    stale: list[Unreached]  # entries of statements that were executed, or are not there
    runs: int

    def share(self) -> float:
        """Return the executed share, in per cent."""
        return 100 * (len(self.units) - len(self.left)) / max(len(self.units), 1)


def measured(files: Mapping[str, Path], scenarios: Iterable[str], least: int, most: int, entries: Sequence[Unreached],
             show: Callable[[str], None] = lambda step: None) -> Coverage:
    """Run `least` seeds of each scenario, and up to `most` while a statement that is not listed was not executed. Then the
    scenario goes on that its file is named after; if there is none, each that executes some of the file. Runs are not judged by
    the model: it executes nothing of the files."""
    recorder, runs = Recorder(files), 0
    units = sorted(recorder.left)
    enters: dict[str, set[str]] = {}  # scenario -> the files that it executes
    for scenario in scenarios:
        show(scenario)
        recorder.codes = {}
        runs += run(recorder, scenario, range(least))
        enters[scenario] = {name for code, _ in recorder.codes.values() if (name := recorder.name_of(code)) in files}
    for first in range(least, most, BLOCK):
        wanted = {unit.file for unit in unlisted(recorder.left, entries)}
        for scenario in [scenario for scenario, those in enters.items() if any(
                Path(file).stem == scenario or Path(file).stem not in enters for file in those & wanted)]:
            show(f"{scenario}, seed {first}")
            runs += run(recorder, scenario, range(first, min(first + BLOCK, most)))
    left = sorted(recorder.left)
    stale = [entry for entry in entries if entry.file in files and not any(map(entry.is_of, left))]
    return Coverage(units, left, unlisted(left, entries), stale, runs)


def unlisted(left: Iterable[Unit], entries: Sequence[Unreached]) -> list[Unit]:
    return [unit for unit in left if not any(entry.is_of(unit) for entry in entries)]


def run(recorder: Recorder, scenario: str, seeds: range) -> int:
    """Run seeds of a scenario, and return their number. What happens when a module is imported does not count."""
    from highwater.dst.run_spec import Run
    from highwater.dst.script import failed
    from highwater.dst.simulate import many, simulate

    simulate(Run(0, scenario))  # imports what it needs
    failed.cache_clear()  # the scripts are to run where they are recorded
    recorder.start()
    try:
        many((Run(seed, scenario) for seed in seeds), lambda outcome: None, by_model=False)
    finally:
        recorder.stop()
    return len(seeds)
