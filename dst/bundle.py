"""Write and read bundles. Safety: a bundle is complete or absent, and a damaged one is refused, never replayed in part.

A bundle is one run in a folder, to keep or to send:

    manifest.json          the run's parameters, its result, and a hash of every other file
    tape.json              its choices; it is sufficient to replay the run
    trace.ndjson           its events, as `trace check` takes them
    report.txt             what happened, and why that is wrong
    timeline.html          the same as a diagram
    shrunk.*               the same files for the run that `dst shrink` made of it

No file names a path, an address or a time of day. With the same run, code and Python, a bundle is the same everywhere.
"""

import json
import re
import shutil
import sys
from hashlib import blake2b
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from highwater import project
from highwater.dst.run_spec import Run, fields_of, record
from highwater.dst.scenario import BaseShape
from highwater.dst.scenarios import named
from highwater.dst.sim.choose import Choice
from highwater.dst.simulate import Outcome
from highwater.outside import document_of, json_of
from highwater.traces.event import to_json

FORMAT = 2  # of a bundle; format 1 had no hash of its manifest
TAPE_FORMAT = 2  # of a tape.json; format 1 had no strategy, shape, weights
SHRUNK = "shrunk."  # begins the names of the shrunk run's files
MANIFEST, TAPE, TRACE = "manifest.json", "tape.json", "trace.ndjson"


class Refused(Exception):
    """The folder or its content cannot be used. The message is one line: the reason, and what to do."""


class Saved(NamedTuple):
    run: Run
    tape: list[Choice]
    digest: str
    code: str | None  # None: unknown
    shrunk: bool | None = None  # whether it is the shrunk run of a bundle that holds two; None: it is the only run


# --- to write


def tape_text(run: Run, outcome: Outcome, code: str) -> str:
    """Format a tape, with one choice a line. `check` has the options of `trace check` for the trace beside it."""
    check = named(run.scenario).trace_options(outcome.shape)
    head = {"v": TAPE_FORMAT, **fields_of(run), "digest": outcome.digest, "code": code, "check": check}
    lines = ",\n".join(json.dumps(choice, separators=(",", ":")) for choice in outcome.tape)
    return json.dumps(head, indent=1)[:-2] + f',\n "tape": [\n{lines}\n]}}\n'


def trace_text(outcome: Outcome) -> str:
    return "".join(to_json(event) + "\n" for event in outcome.events)


def files_of(run: Run, outcome: Outcome, code: str, report: str, timeline: str | None, prefix: str = "") -> dict[str, str]:
    files = {TAPE: tape_text(run, outcome, code), TRACE: trace_text(outcome), "report.txt": report,
             "timeline.html": timeline}
    return {prefix + name: text for name, text in files.items() if text is not None}


def write(folder: Path, run: Run, outcome: Outcome, code: str, files: dict[str, str]) -> None:
    """Write a bundle, replacing an existing one. `files`: the run's, and perhaps those of its shrunk run.

    Raises OSError; raises Refused if the folder holds something else."""
    manifest = {"format": FORMAT, **fields_of(run), "played": outcome.strategy, "profile": outcome.shape.store,
                "kind": outcome.kind, "signature": outcome.signature, "requests": outcome.requests, "digest": outcome.digest,
                "tape": tape_hash(outcome.tape), "code": code, "python": ".".join(map(str, sys.version_info[:3])),
                "files": {name: hashed(text) for name, text in sorted(files.items())}}
    manifest["manifest"] = hashed(json.dumps(manifest))
    may_be_replaced(folder)
    half, old = folder.with_name(f".{folder.name}.writing"), folder.with_name(f".{folder.name}.old")
    for left in (half, old):
        shutil.rmtree(left, ignore_errors=True)
    half.mkdir(parents=True)
    for name, text in {**files, MANIFEST: json.dumps(manifest, indent=1) + "\n"}.items():
        (half / name).write_bytes(text.encode())
    if folder.exists():
        folder.rename(old)
    half.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def may_be_replaced(folder: Path) -> None:
    """Raises Refused if the folder holds anything that is not part of a bundle."""
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder} is a file: give a new folder")
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    try:
        own = [MANIFEST, *read_manifest(folder)["files"]] if there else []
    except Refused:
        raise Refused(f"{folder} is not empty, and is not a bundle: delete it, or give a new folder") from None
    strange = [name for name in there if name not in own]
    if strange:
        raise Refused(f"{folder} holds {strange[0]}, which is not part of a bundle: give a new folder")


def hashed(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def tape_hash(tape: list[Choice]) -> str:
    return hashed(json.dumps([list(choice) for choice in tape]))


# --- to read


def read(path: Path, shrunk: bool | None = None) -> Saved:
    """Read a bundle, or a single tape. `shrunk` selects a run of a bundle; None: the shrunk run if there is one. Raises
    Refused."""
    if not path.is_dir():
        return read_tape(path, text_of(path))
    manifest = read_manifest(path)
    for name, hash_ in manifest["files"].items():
        if not (path / name).is_file():
            raise Refused(f"{path}: the bundle is damaged: there is no {name}; get a new copy")
        if hashed(text_of(path / name)) != hash_:
            raise Refused(f"{path}: the bundle is damaged: {name} is not what was written; get a new copy")
    both = SHRUNK + TAPE in manifest["files"]
    name = (SHRUNK if shrunk or (shrunk is None and both) else "") + TAPE
    if name not in manifest["files"]:
        command = f": highwater dst shrink {quote(str(path))}{project.option()}" if shrunk else ""
        raise Refused(f"{path}: it holds no {name}{command}")
    return read_tape(path / name, text_of(path / name))._replace(shrunk=name.startswith(SHRUNK) if both else None)


def options_in(trace: Path) -> tuple[str, str]:
    """Return the scenario of a trace that lies in a bundle, and the options of `trace check` for its run's shape. Raises
    Refused if it is in no bundle, or the bundle is damaged."""
    manifest = read_manifest(trace.parent)
    tape = trace.name.replace(TRACE, TAPE)
    if trace.name not in manifest["files"] or tape not in manifest["files"]:
        raise Refused(f"{trace}: its bundle has no such trace")
    if hashed(text := text_of(trace.parent / tape)) != manifest["files"][tape]:
        raise Refused(f"{trace.parent}: the bundle is damaged: {tape} is not what was written; get a new copy")
    try:
        return str(manifest["scenario"]), " ".join(json_of(text).get("check", ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{trace.parent}: the bundle is damaged: {tape}: {error!r}; get a new copy") from None


def read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json_of(text_of(path / MANIFEST))
        names = [name for name, _ in manifest["files"].items()]
        changed = manifest.pop("manifest", None) != hashed(json.dumps(manifest))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{path}: the bundle is damaged: manifest.json: {error!r}; get a new copy") from None
    if manifest.get("format") != FORMAT:
        raise Refused(f"{path}: a bundle of format {manifest.get('format')!r}; this reads {FORMAT}")
    if changed:
        raise Refused(f"{path}: the bundle is damaged: manifest.json is not what was written; get a new copy")
    if any(Path(name).name != name for name in names):
        raise Refused(f"{path}: the bundle is damaged: manifest.json names files outside of it")
    return manifest


def text_of(path: Path) -> str:
    """Read a file as UTF-8. Raises Refused."""
    try:
        return document_of(path).decode()
    except OSError as error:
        raise Refused(f"{path}: not a tape: {error.strerror}; give a bundle's folder, a tape.json, or a seed") from None
    except UnicodeDecodeError:
        raise Refused(f"{path}: not a tape: it is not text") from None
    except ValueError as error:
        raise Refused(f"{path}: not a tape: {error}") from None


def read_tape(path: Path, text: str) -> Saved:
    try:
        saved = json_of(text)
        if saved["v"] not in (1, TAPE_FORMAT):
            raise ValueError(f"version {saved['v']!r}; this reads 1 and {TAPE_FORMAT}")
        check_scenario(path, str(saved["scenario"]))
        tape = [(str(site), choice, bound) for site, choice, bound in saved["tape"]]
        if not all(type(choice) is type(bound) is int and 0 <= choice < bound for _, choice, bound in tape):
            raise ValueError("a choice is not within its bound")
        if not re.fullmatch("[0-9a-f]{32}", saved["digest"]):
            raise ValueError(f"the digest is {saved['digest']!r}")
        by_model = saved.get("by_model", True)
        if type(by_model) is not bool:
            raise ValueError(f"by_model is {by_model!r}, and may be true or false")
        run = Run(int(saved["seed"]), saved["scenario"], saved["mutant"], str(saved.get("strategy", "portfolio")),
                  shape_of(str(saved["scenario"]), saved.get("shape")), record(named(str(saved["scenario"])).weights(),
                                                                                    saved.get("weights")), by_model)
        return Saved(run, tape, saved["digest"], saved.get("code"))
    except KeyError as error:
        raise Refused(f"{path}: not a tape: it has no {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise Refused(f"{path}: not a tape: {error}") from None


def check_scenario(path: Path, scenario: str) -> None:
    """Raises Refused if there is no such scenario here: it is of a project that was not given, or of another one."""
    try:
        named(scenario)
    except LookupError:
        current = project.current()
        whose = f", which is not {current.folder}" if current else ""
        raise Refused(f"{path}: this is a run of {scenario!r}, which is no protocol of highwater, but of a project{whose}: "
                      f"give its folder, the one with {project.FILE}, to --project") from None


def shape_of(scenario: str, saved: dict[str, Any] | None) -> BaseShape | None:
    """Return the saved shape. Raises ValueError."""
    of = named(scenario)
    return record(of.shape(), saved, of.most)
