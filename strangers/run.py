"""Try released clients of other projects: `python strangers/run.py [NAME ..]` runs `highwater client test` on each.

Each folder here has a client, its check, and stranger.toml, which says how they are run. Each gets a virtual environment of its
own in the cache, with pinned releases. What was found is in out/strangers/NAME: report.md, and in short verdicts.json. A test
that was stopped goes on.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from pathlib import Path
from typing import Any

from highwater.clients.campaign import results
from highwater.clients.report import failures
from highwater.specs.fizzbee.run import build_module

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    there = sorted(path.parent.name for path in HERE.glob("*/stranger.toml"))
    if unknown := set(names) - set(there):
        print(f"there is no stranger {', '.join(sorted(unknown))}; there are {', '.join(there)}", file=sys.stderr)
        return 2
    codes = [tried(name) for name in names or there]
    return 3 if any(code in (2, 3) for code in codes) else 0  # a finding is what we look for


def tried(name: str) -> int:
    """Run one stranger's test to its end, and write its results. Return the test's exit code."""
    of: dict[str, Any] = tomllib.loads((HERE / name / "stranger.toml").read_text())
    python, out = environment(name, of["requirements"]), Path("out/strangers") / name
    words = [text.replace("{python}", str(python)).replace("{client}", str(HERE / name / "client.py")) for text in (
        of["setup"], of["check"], of["command"])]
    beside = [f"{other}={text}".replace("{python}", str(python)).replace("{client}", str(HERE / name / "client.py"))
              for other, text in of.get("with", {}).items()]
    command = [sys.executable, "-m", "highwater", "client", "test", "--out", str(out), "--setup", words[0], "--check", words[1],
               "--pairs", str(of["pairs"]), *[word for one in of.get("hints", ()) for word in ("--hint", one)],
               *[word for one in beside for word in ("--with", one)], "--", *words[2].split()]
    print(f"{name}: {', '.join(of['requirements'])}", flush=True)
    code = subprocess.run(command).returncode
    if code != 2 and (out / "results.ndjson").exists():
        write(name, of["requirements"], out)
    return code


def environment(name: str, requirements: list[str]) -> Path:
    """Return the Python of a stranger's environment, which is made once for its requirements."""
    stamp = hashlib.sha256(f"{sys.version} {requirements}".encode()).hexdigest()[:12]
    folder = build_module().cache() / "strangers" / f"{name}-{stamp}"
    python, ready = folder / "bin/python", folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], check=True)
        ready.touch()
    return python


def write(name: str, requirements: list[str], out: Path) -> None:
    """Write what a campaign found, without what differs from run to run."""
    found = sorted(results(out), key=lambda one: one.number)
    told = {"requirements": requirements, "runs": len(found), "mutations": {
        client: len(places) for client, places in found[0].mutations.items()},
        "verdicts": dict(sorted(Counter(one.verdict for one in found).items())),
        "findings": [{"kinds": sorted(alike[0].kinds), "faults": [str(one) for one in alike[0].placed], "alike": len(alike)}
                     for alike in failures(found)]}
    (out / "verdicts.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
