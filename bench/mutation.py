"""Store the rates of `highwater dst mutate`: `python -m bench.mutation FILE.. --budget N [--tests]`.

Each FILE was written by `highwater dst mutate --json FILE`, with this budget, and with or without its tests. The rates of the
files of code in it are replaced, and those of others stay. docs/simulation/mutation.md has the commands.
"""

import argparse
import json
from pathlib import Path

from highwater.mutate.rates import RECORDED, rates, recorded, text_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--budget", type=int, required=True)
    parser.add_argument("--tests", action="store_true")
    asked = parser.parse_args()
    verdicts = [json.loads(line) for file in asked.files for line in file.read_text().splitlines()]
    RECORDED.write_text(text_of({**recorded(), **rates(verdicts, asked.budget, asked.tests)}))


if __name__ == "__main__":
    main()
