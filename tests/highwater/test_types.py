"""The type checker passes: basedpyright, as [tool.basedpyright] in pyproject.toml sets it. `make lint` runs the same."""

import json
import subprocess
import sys
from pathlib import Path

from tests.highwater.test_tidy import ROOT, sources


def test_the_type_checker_passes():
    checker = Path(sys.executable).parent / "basedpyright"
    assert checker.exists(), "basedpyright is not installed: run `make setup`"
    done = subprocess.run([checker, "--outputjson", "--pythonpath", sys.executable], cwd=ROOT, capture_output=True, text=True,
                          timeout=900)
    report = json.loads(done.stdout)
    errors = [f"{error['file']}:{error['range']['start']['line'] + 1}: {error['message']}"
              for error in report["generalDiagnostics"]]
    assert not errors, "\n".join(errors)
    assert done.returncode == 0, done.stderr
    package = [path for path in sources() if path.relative_to(ROOT).parts[0] != "bench"]
    assert report["summary"]["filesAnalyzed"] >= len(package), "[tool.basedpyright] leaves files out"
