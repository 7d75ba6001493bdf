"""Commands print texts as they are, and end in one way after Ctrl-C."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cli import main
from highwater.cli.campaign.app import print_status
from highwater.cli.console import console
from highwater.gate.exits import INTERRUPTED
from highwater.project import PACKAGE

STATUS = {"scenario": "register", "mutant": "", "seeds": "0:100", "left": 91, "running": False, "done": 9, "failed": 9,
          "rate": 0, "failures": []}


def test_range_of_seeds_is_not_an_emoji(capsys):
    """Rich replaces a word between colons by an emoji, also without markup: `0:100:` has the word 100."""
    print_status(STATUS, Path("out"))
    assert "seeds 0:100: stopped" in capsys.readouterr().out
    with console.capture() as printed:
        console.print("seeds 0:100: stopped", markup=False)
    assert printed.get() == "seeds 0:100: stopped\n"


def test_no_console_replaces_words_by_emojis():
    sources = "".join(path.read_text() for path in (PACKAGE / "cli").rglob("*.py"))
    calls = re.findall(r"\b(?:Console|Output)\(\w+=.*", sources)
    assert len(calls) > 5 and not [call for call in calls if "emoji=False" not in call], calls


def test_interrupt_before_the_verb_has_its_exit_code(monkeypatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == INTERRUPTED


def test_output_escapes_what_its_encoding_lacks(tmp_path):
    words = ["dst", "run", "--no-project", "--scenario", "baseline", "--seed", "1", "--out", f"{tmp_path}/\udcff"]
    done = subprocess.run([sys.executable, "-m", "highwater", *words], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONIOENCODING": "ascii:strict"})
    assert f"written: {tmp_path}/\\udcff, " in done.stdout and "Traceback" not in done.stderr
