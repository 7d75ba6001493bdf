"""Look for a failing run of changed code: `python -m highwater.mutate.trial [[SCENARIO, FIRST, LAST], ..]`.

It runs these seeds of these scenarios, and prints the first failure as JSON, [scenario, seed, signature], or null.
The process has the changed code on its path, so nothing else of ours runs in it.
"""

import json
import sys


def first_failure(tasks: list[tuple[str, int, int]]) -> tuple[str, int, str] | None:
    from highwater.dst.run_spec import Run
    from highwater.dst.simulate import simulate

    for scenario, first, last in tasks:
        for seed in range(first, last):
            if (outcome := simulate(Run(seed, scenario))).kind:
                return scenario, seed, outcome.signature
    return None


if __name__ == "__main__":
    try:
        print(json.dumps(first_failure(json.loads(sys.argv[1]))))
    except Exception as error:  # the changed module cannot even be imported, or a scenario not be set up
        print(json.dumps(["", -1, f"{type(error).__name__}: {error}"]))
