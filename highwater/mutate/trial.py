"""Look for a failing run of changed code: `python -m highwater.mutate.trial` reads {"tasks": [[SCENARIO, FIRST, LAST], ..],
"file": PATH, "source": TEXT} from its input.

It runs these seeds of these scenarios, and prints the first failure as JSON, [scenario, seed, signature], or null. The file is
imported as if it had this source. Without a file the code is as it is.
"""

import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType


def change(file: str, source: str) -> None:
    """Let this process import the file with another source."""
    changed, usual = Path(file).resolve(), SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if Path(loader.path).resolve() == changed:
            return compile(source, loader.path, "exec", dont_inherit=True)
        return usual(loader, name)

    SourceFileLoader.get_code = get_code


def first_failure(tasks: list[tuple[str, int, int]]) -> tuple[str, int, str] | None:
    from highwater.dst.run_spec import Run
    from highwater.dst.simulate import simulate

    for scenario, first, last in tasks:
        for seed in range(first, last):
            if (outcome := simulate(Run(seed, scenario))).kind:
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
