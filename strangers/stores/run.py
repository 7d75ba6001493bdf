"""Probe S3 servers that install with one command: `python strangers/stores/run.py [NAME ..]`.

stores.toml says how each is installed, once, into the cache, and started. What was found is in verdicts.json here, from which
the table of docs/operating/store-probe.md is made.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

from highwater.servers.leash import CannotStart, leashed
from highwater.specs.fizzbee.run import build_module

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
BUCKET, ROUNDS = "probe", 100


def stores() -> dict[str, dict[str, Any]]:
    return tomllib.loads((HERE / "stores.toml").read_text())


def main(names: list[str]) -> int:
    there = stores()
    if unknown := set(names) - set(there):
        print(f"there is no server {', '.join(sorted(unknown))}; there are {', '.join(there)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or there:
        try:
            keep(name, there[name], probed(there[name], installed(name, there[name])))
        except (OSError, subprocess.CalledProcessError, CannotStart) as error:
            print(f"{name} was not probed: {error}", file=sys.stderr)
            failed = True
    return 3 if failed else 0


def installed(name: str, of: dict[str, Any]) -> Path:
    """Install a server, once. Return its folder. Raises CalledProcessError, OSError."""
    kind = next(kind for kind in INSTALL if kind in of)
    stamp = hashlib.sha256(f"{sys.version} {of[kind]}".encode()).hexdigest()[:12]
    folder = build_module().cache() / "strangers" / f"store-{name}-{stamp}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        INSTALL[kind](folder, of[kind])
        (folder / "ready").touch()
    return folder


def by_pip(folder: Path, packages: list[str]) -> None:
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                   check=True)


def by_npm(folder: Path, packages: list[str]) -> None:
    subprocess.run(["npm", "install", "--prefix", folder, "--silent", "--no-fund", "--no-audit", *packages], check=True)
    (folder / "bin").symlink_to("node_modules/.bin")


def by_maven(folder: Path, artifact: str) -> None:
    subprocess.run(["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], check=True)


INSTALL = {"pip": by_pip, "npm": by_npm, "maven": by_maven}


def probed(of: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Start a server, and return what `highwater store probe` says of it. Raises CannotStart."""
    jar = next(iter(folder.glob("*.jar")), "")
    secrets = {"AWS_ACCESS_KEY_ID": of.get("key", "test"), "AWS_SECRET_ACCESS_KEY": of.get("secret", "testtest"),
               "AWS_DEFAULT_REGION": "us-east-1"}
    with tempfile.TemporaryDirectory() as data:
        def command(port: int) -> list[str]:
            return shlex.split(of["start"].format(bin=folder / "bin", java="java", jar=jar, data=data, port=port))

        with leashed(folder.name, command) as url:
            os.environ.update(secrets)
            from highwater.impl.stores.s3 import connect

            connect(url).create_bucket(Bucket=BUCKET)
            told = Path(data) / "told.json"
            code = subprocess.run([sys.executable, "-m", "highwater", "store", "probe", f"s3://{BUCKET}", "--endpoint-url", url,
                                   "--rounds", f"{ROUNDS}", "--json", told]).returncode
            found = json.loads(told.read_text()) if told.exists() else {"lines": [], "unsafe": {}, "profile": ""}
            return {**found, "exit": code}


def keep(name: str, of: dict[str, Any], report: dict[str, Any]) -> None:
    """Keep what does not differ from run to run."""
    lines = {line["line"]: line["verdict"] for line in report["lines"] if line["verdict"] != "pass"}
    told = {"version": of["version"], "start": of["start"], "exit": report["exit"], "lines": lines,
            "unsafe": sorted(report["unsafe"]), "profile": report["profile"]}
    kept = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}
    VERDICTS.write_text(json.dumps({**kept, name: told}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
