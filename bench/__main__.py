"""python -m bench [NAME ..]: what is fast and what is not, as ratios of one run on this machine."""

import sys

from bench import exploration, proof, shrinking, simulation

ALL = {"exploration": exploration, "simulation": simulation, "shrinking": shrinking, "proof": proof}

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in ALL]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
    for name in sys.argv[1:] or ALL:
        print(f"--- {name}: {ALL[name].__doc__.splitlines()[0]}")
        ALL[name].main()
