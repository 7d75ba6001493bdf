"""Try released clients of other projects: `python strangers/run.py [NAME ..]` runs `highwater client test` on each.

Each folder here has a client, its check, and stranger.toml, which says how they are run; perhaps maps.toml, for `--map`. Each
release gets a virtual environment of its own in the cache. What was found is in out/strangers/NAME-RELEASE/report.md, and in
short in verdicts.json here, from which docs/strangers-verdicts.md is made. A test that was stopped goes on.
"""

import hashlib
import json
import shlex
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from highwater.clients.campaign import results
from highwater.clients.report import failures
from highwater.specs.fizzbee.run import build_module

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
FIELDS = {"requirements", "releases", "setup", "command", "check", "with", "pairs", "hints", "documented"}


class Stranger(NamedTuple):
    """A release, and how it is run. `of` is its stranger.toml, with the release filled in."""

    name: str
    release: str
    of: dict[str, Any]

    @property
    def title(self) -> str:
        return f"{self.name} {self.release}"


def strangers() -> list[Stranger]:
    """Return all releases of the shelf. Raises ValueError for a field that stranger.toml cannot have."""
    found = []
    for path in sorted(HERE.glob("*/stranger.toml")):
        of = tomllib.loads(path.read_text())
        if unknown := of.keys() - FIELDS:
            raise ValueError(f"{path}: unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(FIELDS))}")
        for release in of.get("releases") or [of["requirements"][0].partition("==")[2]]:
            needs = [text.replace("{release}", release) for text in of["requirements"]]
            found.append(Stranger(path.parent.name, release, {**of, "requirements": needs}))
    return found


def main(names: list[str]) -> int:
    there = strangers()
    if unknown := set(names) - {name for one in there for name in (one.name, one.title)}:
        print(f"there is no stranger {', '.join(sorted(unknown))}; there are {', '.join(one.title for one in there)}",
              file=sys.stderr)
        return 2
    codes = [tried(one) for one in there if not names or {one.name, one.title} & set(names)]
    return 3 if any(code in (2, 3) for code in codes) else 0  # a finding is what we look for


def tried(one: Stranger) -> int:
    """Run one stranger's test to its end, and write its results. Return the test's exit code, 3 if it cannot be installed."""
    print(f"{one.title}: {', '.join(one.of['requirements'])}", flush=True)
    try:
        python = environment(one)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{one.title} cannot be installed: {error}", file=sys.stderr)
        return 3
    out = Path("out/strangers") / one.title.replace(" ", "-")
    code = subprocess.run(command(one, python, out)).returncode
    if code not in (2, 3) or (out / "report.md").exists():
        keep(one, out)
    return code


def command(one: Stranger, python: Path | str, out: Path) -> list[str]:
    """The command that tries a stranger."""
    of, client = one.of, HERE / one.name / "client.py"

    def filled(text: str) -> str:
        return text.replace("{python}", str(python)).replace("{client}", str(client))

    beside = [f"{name}={filled(text)}" for name, text in of.get("with", {}).items()]
    maps = [str(path) for path in [HERE / one.name / "maps.toml"] if path.exists()]
    options = {"--with": beside, "--hint": of.get("hints", ()), "--map": maps, "--pairs": [str(of["pairs"])]}
    return [sys.executable, "-m", "highwater", "client", "test", "--out", str(out), "--setup", filled(of["setup"]),
            "--check", filled(of["check"]), *[word for option, values in options.items() for value in values
                                              for word in (option, value)], "--", *shlex.split(filled(of["command"]))]


def environment(one: Stranger) -> Path:
    """Return the Python of a stranger's environment, which is made once for its requirements. Raises CalledProcessError."""
    stamp = hashlib.sha256(f"{sys.version} {one.of['requirements']}".encode()).hexdigest()[:12]
    folder = build_module().cache() / "strangers" / f"{one.name}-{stamp}"
    python, ready = folder / "bin/python", folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *one.of["requirements"]],
                       check=True)
        ready.touch()
    return python


def keep(one: Stranger, out: Path) -> None:
    """Write what a campaign found, without what differs from run to run."""
    found = sorted(results(out), key=lambda result: result.number)
    told = {
        "requirements": one.of["requirements"],
        "mutations": {client: len(places) for client, places in found[0].mutations.items()},
        "single": sum(len(result.placed) == 1 for result in found),
        "pairs": sum(len(result.placed) == 2 for result in found),
        "verdicts": dict(sorted(Counter(result.verdict for result in found).items())),
        "findings": [{"kinds": sorted(alike[0].kinds), "faults": [str(fault) for fault in alike[0].placed],
                      "where": list(alike[0].where), "run": alike[0].number, "alike": len(alike)}
                     for alike in failures(found)]}
    kept = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}
    VERDICTS.write_text(json.dumps({**kept, one.title: told}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
