"""Find the command that installs a missing library. The core works without the extras of the distribution."""

import json
import re
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "highwater-verify"
DISTRIBUTIONS = {  # module -> its distribution, where the names differ
    "botocore": "boto3",
    "google": "protobuf",
    "grpc": "grpcio",
    "jdk": "install-jdk",
    "py4j": "pyspark",
    "re2": "google-re2",
    "ulid": "python-ulid",
    "z3": "z3-solver",
}
REQUIRED = re.compile(r"(?P<name>[\w.-]+)(?:.*extra == \"(?P<extra>[\w-]+)\")?")  # a line Requires-Dist


def installed() -> Distribution | None:
    """Return highwater's distribution; None if only its sources are on the path."""
    try:
        return Distribution.from_name(NAME)
    except PackageNotFoundError:
        return None


def install_command(error: ModuleNotFoundError) -> str:
    """Return the command that installs the library that `error` names; empty if highwater does not require it."""
    module = (error.name or "").partition(".")[0]
    wanted = DISTRIBUTIONS.get(module, module.replace("_", "-"))
    lines = (ours := installed()) and ours.requires
    extras = (found["extra"] or "" for line in lines or [] if (found := REQUIRED.match(line)) and found["name"] == wanted)
    extra = next(extras, None)
    return "" if extra is None else install_extra(extra)


def install_extra(extra: str) -> str:
    """Return the command that adds an extra, or with "" what the core lacks, to this installation.

    pip keeps in direct_url.json (PEP 610) from where it installed a distribution that was not on an index."""
    recorded = (ours := installed()) and ours.read_text("direct_url.json")
    origin = json.loads(recorded or "{}")
    extras, url = f"[{extra}]" if extra else "", origin.get("url", "")
    if origin.get("dir_info", {}).get("editable"):
        words = ["-e", url2pathname(urlsplit(url).path) + extras]
    elif "vcs_info" in origin:
        words = [f"{NAME}{extras} @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"]
    else:
        words = [f"{NAME}{extras} @ {url}" if url else NAME + extras]
    pip, python = which("pip"), Path(sys.executable)
    beside = pip and Path(pip).parent == python.parent
    return shlex.join([*(["pip"] if beside else [str(python), "-m", "pip"]), "install", *words])
