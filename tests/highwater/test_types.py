"""The type checker passes: basedpyright, as [tool.basedpyright] in pyproject.toml sets it. `make lint` runs the same.

Strict rooms have no errors. Other rooms may have those in types_known.json, and no new one.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ROOT / "tests" / "highwater" / "types_known.json"
STRICT = ("impl", "model", "model/explore", "traces")  # with the folders of impl, and no others of model and traces


def is_strict(name: str) -> bool:
    folder = Path(name).parent.relative_to("highwater").as_posix()
    return folder in STRICT or folder.startswith("impl/")


def test_the_type_checker_passes():
    checker = Path(sys.executable).parent / "basedpyright"
    assert checker.exists(), "basedpyright is not installed: run `make setup`"
    done = subprocess.run([checker, "--baselinemode", "discard", "--pythonpath", sys.executable], cwd=ROOT, capture_output=True,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_no_error_of_a_strict_room_is_known():
    files = [name.removeprefix("./") for name in json.loads(KNOWN.read_text())["files"]]
    assert files and not [name for name in files if is_strict(name)]
    assert is_strict("highwater/impl/stores/s3.py") and is_strict("highwater/traces/event.py")
    assert not is_strict("highwater/traces/protocols/log_gc.py")
