"""Record which lines of an implementation the runs of a scenario execute: `python -m highwater.mutate.reached SCENARIO
SEEDS FILE..` prints them as JSON, {file: {line: number of runs}}."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Lines = dict[str, dict[int, int]]  # file as it was asked for -> line -> number of runs that executed it


class Recorder:
    """Records the lines of some files that this thread executes between `start` and `stop`. A function whose lines were all
    executed is not watched any longer."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = {str(Path(file).resolve()): file for file in files}
        self.names: dict[str, str] = {}  # a file of code that was met -> as it was asked for; "" if it was not
        self.seen: set[tuple[str, int]] = set()
        self.left: dict[int, tuple[CodeType, str, set[int]]] = {}  # id of a code object -> it, its file, lines not yet executed

    def start(self) -> None:
        self.seen, self.left = set(), {}
        sys.settrace(self.enter)

    def stop(self) -> set[tuple[str, int]]:
        """Return (file, line) of each line that was executed."""
        sys.settrace(None)
        return self.seen

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        known = self.left.get(id(code))
        if known is None:
            file = self.name_of(code)
            lines = {line for _, _, line in code.co_lines() if line} if file else set[int]()
            known = self.left[id(code)] = code, file, lines
        _, file, left = known
        if not left:
            return None
        seen = self.seen

        def line(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_lineno in left:
                left.discard(frame.f_lineno)
                seen.add((file, frame.f_lineno))
            return line if left else None

        return line(frame, event, None)

    def name_of(self, code: CodeType) -> str:
        path = code.co_filename  # two functions with the same code are equal, whatever their files
        if path not in self.names:
            self.names[path] = self.files.get(str(Path(path).resolve()), "")
        return self.names[path]


def of_scenario(scenario: str, seeds: int, files: Sequence[str]) -> Lines:
    """Record the lines that these seeds execute. What happens when a module is imported does not count."""
    from highwater.dst.run_spec import Run
    from highwater.dst.script import failed
    from highwater.dst.simulate import simulate

    simulate(Run(seeds, scenario))  # imports what it needs
    failed.cache_clear()  # the scripts are to run where they are recorded
    recorder, found = Recorder(files), Counter[tuple[str, int]]()
    for seed in range(seeds):
        recorder.start()
        try:
            simulate(Run(seed, scenario))
        finally:
            found.update(recorder.stop())
    return {file: {line: found[file, line] for of, line in sorted(found) if of == file} for file in files}


def main(scenario: str, seeds: str, *files: str) -> None:
    print(json.dumps(of_scenario(scenario, int(seeds), files)))


if __name__ == "__main__":
    main(*sys.argv[1:])
