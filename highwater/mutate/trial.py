"""Look for a failing run of changed code: `python -m highwater.mutate.trial` reads {"tasks": [[SCENARIO, FIRST, LAST], ..],
"file": PATH, "source": TEXT} from its input.

It runs these seeds of these scenarios, and prints the first failure as JSON, [scenario, seed, signature], or null. The file is
imported as if it had this source. Without a file the code is as it is. A run that does not end has failed.
"""

import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from highwater.model.uncollected import uncollected

LONGEST_S = 5.0  # of a run; hundreds of times a usual one


def change(file: str, source: str) -> None:
    """Let this process import the file with another source."""
    changed, usual = Path(file).resolve(), SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if Path(self.path).resolve() == changed:
            return compile(source, self.path, "exec", dont_inherit=True)
        return usual(self, fullname)

    SourceFileLoader.get_code = get_code


@uncollected()
def first_failure(tasks: list[tuple[str, int, int]]) -> tuple[str, int, str] | None:
    from highwater.dst.run_spec import Run
    from highwater.dst.sim.alarm import Hung, alarmed, set_alarm
    from highwater.dst.simulate import simulate

    with alarmed():
        for scenario, first, last in tasks:
            for seed in range(first, last):
                set_alarm(LONGEST_S)
                try:
                    outcome = simulate(Run(seed, scenario))
                except Hung:
                    return scenario, seed, f"hangs: no end after {LONGEST_S:.0f} s"
                if outcome.kind:
                    return scenario, seed, outcome.signature
    return None


def main() -> None:
    asked = json.load(sys.stdin)
    if asked["file"]:
        change(asked["file"], asked["source"])
    try:
        print(json.dumps(first_failure(asked["tasks"])))
    except Exception as error:  # the changed module cannot even be imported, or a scenario not be set up
        print(json.dumps(["", -1, f"{type(error).__name__}: {error}"]))


if __name__ == "__main__":
    main()
