"""Run `highwater` with a clock that jumps: `python -m tests.support.shifted FILE WORDS..`.

FILE has how many milliseconds the wall clock is ahead; it is read again each time. No file: none.
"""

import sys
import time
from pathlib import Path

from highwater.impl.stores import system


def main() -> None:
    file = Path(sys.argv[1])

    def shifted_ms() -> int:
        try:
            ahead_ms = int(file.read_text() or 0)
        except FileNotFoundError:
            ahead_ms = 0
        return time.time_ns() // 1_000_000 + ahead_ms

    system.wall_clock_ms = shifted_ms
    from highwater.cli.main import app

    sys.argv = ["highwater", *sys.argv[2:]]
    app()


if __name__ == "__main__":
    main()
