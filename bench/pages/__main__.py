"""`python -m bench.pages [NAME ..]` writes the generated parts; with `--check` it names those that are stale."""

import sys

from bench.pages.parts import main

sys.exit(main(sys.argv[1:]))
