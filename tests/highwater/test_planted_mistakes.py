"""An exception in any function of a project is reported with file and line, by each verb that calls the function."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.gate.exits import BAD_INPUT, HARNESS, PROOF, SAFETY
from highwater.traces.recorded.s3log import Body, Request, to_json
from tests.support.projects import REGISTER, forget, highwater, made

ROOT = REGISTER.parents[2]
LEASE = ROOT / "examples" / "lease"
RUN = ("dst", "run", "--seeds", "0:60")
VERBS = {  # part -> the commands that call its functions
    "model": (("model", "explore"), ("model", "explore", "--engine", "plain"), ("model", "walk", "--walks", "3"),
              ("model", "conform"), ("model", "step", "--take", "0,0"), RUN),
    "mapping": (RUN, ("dst", "explain", "7", "--mutant", "hopeful"), ("dst", "doctor", "--seeds", "0:2"),
                ("trace", "damage", "--seeds", "0:1"), ("trace", "check", "TRACE")),
    "scenario": (RUN, ("dst", "zoo", "--campaigns", "1", "--cap", "5"), ("dst", "exhaust", "--delays", "0"), ("cost",),
                 ("dst", "timeline", "0", "--out", "OUT"), ("trace", "check", "TRACE")),
    "impl": (RUN,),
    "mutants": ((*RUN, "--mutant", "hopeful"), (*RUN, "--mutant", "blind")),
    "recorded": (("trace", "check", "LOG"),),
    "refinement": (("model", "refine"), ("model", "refine", "--set", "READERS=1")),
    "proof": (("model", "prove", "--timeout", "1"), ("model", "prove", "--bounded", "2")),
}
IN_PROOF = ("initial", "put", "create_next", "ids_are_contiguous", "acked_is_in_history", "places", "request", "choices",
            "scope", "system", "prove")


def of_sequenced_write() -> dict[str, str]:
    """Return the files of a project that has our model of sequenced_write, its proof and its refinement."""
    files = {part: (ROOT / "model" / room / "sequenced_write.py").read_text().replace("highwater.model.protocols import "
             "sequenced_write as", "files import model as") for part, room in (
        ("model", "protocols"), ("proof", "proofs"), ("refinement", "refinements"))}
    files = {f"files/{part}.py": text for part, text in files.items()}
    return {"highwater.toml": '[protocols]\nfiles = "files"\n', "files/__init__.py": "", **files}


def sources(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.*")
            if path.suffix in (".py", ".toml") and "tests" not in path.parts[len(folder.parts):]}


PROJECTS = {"register": (sources(REGISTER), ("model", "mapping", "scenario", "impl", "mutants")),
            "lease": (sources(LEASE), ("recorded",)), "files": (of_sequenced_write(), ("refinement", "proof"))}


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the first line of the body of each function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{node.name}:{node.lineno}", node.body[ast.get_docstring(node) is not None].lineno


def cases() -> Iterator[tuple[str, str, str]]:
    for name, (files, parts) in PROJECTS.items():
        for part in parts:
            for function, _ in functions(files[f"{name}/{part}.py"]):
                if part != "proof" or function.partition(":")[0] in IN_PROOF:
                    yield name, part, function


def planted(source: str, function: str) -> tuple[str, int]:
    """Return the source with a name that is not defined in the body of a function, and its line."""
    line = dict(functions(source))[function]
    lines = source.splitlines(keepends=True)
    lines[line - 1] = re.sub(r"^( *)", r"\1no_such_name; ", lines[line - 1], count=1) if not re.match(
        r" *(if|for|while|try|async|with|def|@|class)\b", lines[line - 1]) else re.sub(
        r"^( *)", r"\1no_such_name\n\1", lines[line - 1], count=1)
    return "".join(lines), line


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    """Return the words of commands that stand for files, and the files: made before anything is planted."""
    folder = tmp_path_factory.mktemp("inputs")
    assert highwater("dst", "run", "--seed", 0, "--out", folder / "run", "--project", REGISTER)[0] == 0
    replies = (("GET", "db/lock", 404), ("PUT", "db/lock", 200, b'[1,"A",9]'), ("GET", "db/data", 200, b"[]"),
               ("PUT", "db/data", 200, b'[[1,"0.0"]]'), ("GET", "db/lock", 200, b'[1,"A",9]'),
               ("PUT", "db/lock", 200, b'[2,"A",9]'), ("PUT", "db/lock", 200, b'[3,"",0]'))
    requests = [asked(number, *reply) for number, reply in enumerate(replies, 1)]
    log = ['{"kind":"log","v":1}', *map(to_json, requests), f'{{"kind":"end","requests":{len(requests)}}}']
    (folder / "log").write_text("\n".join(log) + "\n")
    return {"TRACE": str(folder / "run" / "trace.ndjson"), "LOG": str(folder / "log"), "OUT": str(folder / "page.html")}


def asked(number: int, method: str, key: str, status: int, body: bytes = b"") -> Request:
    """Return a request of a log that was answered before the next one was sent."""
    bodies = {"sent_body" if method == "PUT" else "got_body": Body(len(body), "", body)}
    return Request(number, "A", method.lower(), method, "bucket", key, called=10 * number, sent=10 * number,
                   answered=10 * number + 5, returned=10 * number + 5, status=status, told=status, times_us=(10**15,) * 4,
                   version=body.decode() if status == 200 else "", **bodies)


@pytest.mark.parametrize("name, part, function", list(cases()))
def test_a_name_error_is_reported_with_its_line(tmp_path, inputs, name, part, function):
    files = dict(PROJECTS[name][0])
    files[f"{name}/{part}.py"], line = planted(files[f"{name}/{part}.py"], function)
    folder, reported = made(tmp_path, files), False
    for verb in VERBS[part]:
        code, out, err = highwater(*(inputs.get(word, word) for word in verb), "--project", folder)
        said = out + err
        if "no_such_name" not in said:
            assert code not in (BAD_INPUT, HARNESS), (verb, said)
            continue
        reported = True
        assert code in (BAD_INPUT, SAFETY if part in ("impl", "mutants") else HARNESS), (verb, code, said)
        assert f"{part}.py:{line}" in said and "Traceback" not in said, (verb, said)
        lines = [line for line in err.splitlines() if not line.startswith("project ")]  # it names what ran
        assert len(lines) <= 1, err
    assert reported
    forget()


@pytest.mark.parametrize("name, part, old, new, verb, said", [
    ("files", "proof", "def commit_is_unique(c, s, i: Id", "def commit_is_unique(c, s, w, i: Id", ("model", "prove"),
     "commit_is_unique() missing 1 required positional argument: 'v'"),
    ("files", "proof", "def begin(c, s, w)", "def begin(c, s)", ("model", "prove"),
     "begin() takes 2 positional arguments but 3 were given"),
    ("files", "refinement", "def refinement(", "def refinement(more, ", ("model", "refine"), "refinement() missing 1 required"),
    ("register", "scenario", "def draw_shape(of", "def draw_shape(more, of", RUN, "draw_shape() missing 1 required"),
    ("register", "scenario", "def final_check(actors", "def final_check(more, actors", RUN, "final_check() missing 1 required"),
    ("lease", "recorded", "def machine()", "def machine(more)", ("trace", "check", "LOG"), "machine() missing 1 required"),
])
def test_a_wrong_parameter_is_reported_with_the_line_of_its_function(tmp_path, inputs, name, part, old, new, verb, said):
    files = dict(PROJECTS[name][0])
    assert old in files[f"{name}/{part}.py"]
    files[f"{name}/{part}.py"] = files[f"{name}/{part}.py"].replace(old, new)
    line = files[f"{name}/{part}.py"].partition(new)[0].count("\n") + 1
    code, out, err = highwater(*(inputs.get(word, word) for word in verb), "--project", made(tmp_path, files))
    assert code in (BAD_INPUT, HARNESS) and f"{part}.py:{line}" in out + err and said in out + err, (code, out, err)


def test_a_parameter_of_an_unknown_sort_is_named(tmp_path):
    files = dict(PROJECTS["files"][0])
    files["files/proof.py"] = files["files/proof.py"].replace("i: Id, u: Update, v: Update):", "i: Id, u: Update, v: str):")
    code, out, err = highwater("model", "prove", "--project", made(tmp_path, files))
    assert code in (BAD_INPUT, PROOF), err
    assert "commit_is_unique: the parameter v has the sort str; the scope has " in out, out + err
