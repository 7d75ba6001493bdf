"""Fuzz a subject, or replay a life of it: `python -m tests.fuzz SUBJECT [--seed S] [--inputs N | --life L]`."""

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.lives import fuzzed, replayed
from tests.fuzz.subjects import SUBJECTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--life", type=int)
    given = parser.parse_args()
    subject = SUBJECTS[given.subject]
    if given.life is not None:
        print(replayed(subject, given.seed, given.life))
        return
    counts, begun_s = Counter[str](), time.monotonic()
    found = fuzzed(subject, given.seed, given.inputs, counts)
    print(found or dict(counts), f"{time.monotonic() - begun_s:.1f} s")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
