"""The mistakes of a first protocol are named in one line, with what to write; none passes unnoticed."""

from pathlib import Path

import pytest

from highwater.gate.exits import BAD_INPUT, SPEC
from tests.support.projects import REGISTER, forget, highwater, made

EXPLORE, CONFORM = ["model", "explore"], ["model", "conform"]


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


def edited(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """Write the register with each edit (file, old text, new text). Returns its folder."""
    files = {path.relative_to(REGISTER).as_posix(): path.read_text() for path in sorted(REGISTER.rglob("*.*"))
             if path.suffix in (".py", ".toml")}
    for name, old, new in edits:
        assert old in files[f"register/{name}"]
        files[f"register/{name}"] = files[f"register/{name}"].replace(old, new, 1)
    return made(folder, files)


# --- a model

@pytest.mark.parametrize("words", [EXPLORE, CONFORM], ids=" ".join)
@pytest.mark.parametrize("old, new, said", [
    ("yield (), s, w\n", "yield s, w\n",
     "the action Writer.CreateConflict has a wrong form: not enough values to unpack (expected 3, got 2)"),
    ("yield (), s, w\n", "return (), s, w\n",
     "the action Writer.CreateConflict has a wrong form: 'NoneType' object is not iterable"),
    ('"OneIsAcked": (None, one_is_acked)', '"OneIsAcked": ("Writer", one_is_acked)',
     "the property one_is_acked cannot be called: one_is_acked() takes 2 positional arguments but 3 were given"),
    ("def acked_is_stored(c: Constants, s: Shared)", "def acked_is_stored(c: Constants, s: Shared, w: Writer)",
     "the property acked_is_stored cannot be called: acked_is_stored() missing 1 required positional argument: 'w'"),
])
def test_an_error_of_a_model_is_one_line(tmp_path, words, old, new, said):
    code, _, err = highwater(*words, "--project", edited(tmp_path, ("model.py", old, new)))
    assert (code, err.count("\n")) == (BAD_INPUT, 1) and f"error: the module register.model: {said}" in err, err


def test_an_error_in_a_function_of_ours_names_the_users_line(tmp_path):
    folder = edited(tmp_path, ("model.py", "reply_lost(c, s)", "reply_lost(c, w)"))
    line = (folder / "register/model.py").read_text().partition("reply_lost(c, w)")[0].count("\n") + 1
    code, _, err = highwater(*EXPLORE, "--set", "MAX_LOST=1", "--project", folder)
    assert code == BAD_INPUT and err.endswith(f"object has no attribute 'lost' ({folder}/register/model.py:{line})\n"), err


def test_a_property_without_a_role_is_refused(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', 'one_is_acked'))
    code, _, err = highwater(*EXPLORE, "--project", folder)
    assert code == BAD_INPUT and "the property OneIsAcked is <function" in err and "write (None, f(c, shared))" in err
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and out.count("the property OneIsAcked is <function") == 2


def test_a_property_of_a_role_that_no_client_has_is_named(tmp_path):
    folder = edited(tmp_path, ("model.py", '(None, one_is_acked)', '("Writr", lambda c, s, w: False)'))
    assert "not checked, because no client has the role: OneIsAcked (Writr)" in highwater(*EXPLORE, "--project", folder)[1]
    code, out, _ = highwater(*CONFORM, "--project", folder)
    assert code == SPEC and "the property OneIsAcked is never checked: no row of" in out and "client of the role 'Writr'" in out


def test_a_role_that_only_some_rows_have_is_checked_there(tmp_path):
    folder = edited(tmp_path, ("model.py", 'ALWAYS = {', 'ALWAYS = {"Late": ("Reader", lambda c, s, w: True), '),
                    ("model.py", '("Writer", c.WRITERS, Writer(), WRITER)',
                     '("Writer", c.WRITERS, Writer(), WRITER), ("Reader", 0 if c.ONLY_IF_ABSENT else 1, (), {})'))
    assert highwater(*CONFORM, "--project", folder)[0] == 0
