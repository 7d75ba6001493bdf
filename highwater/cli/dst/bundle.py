"""Write bundles for `highwater dst` and `highwater campaign`: the files of dst/bundle.py, with the report and the timeline."""

from pathlib import Path

from highwater import project
from highwater.cli.console import refuse
from highwater.cli.dst.explain import look, text_of
from highwater.cli.dst.report import again_by, facts, replayed_by, which
from highwater.cli.dst.timeline import page_of
from highwater.dst.bundle import SHRUNK, Refused, files_of, write
from highwater.dst.run_spec import Run
from highwater.dst.simulate import Outcome
from highwater.dst.version import code_version


def kept(outcome: Outcome, given: Run, code: str, shrunk: bool | None = None) -> dict[str, str]:
    """Return the files of a run in a bundle: name -> text. They name no path, so a word stands for the project's folder.

    `shrunk`: as in Saved."""
    run = which(shrunk, outcome)
    with project.elsewhere(project.STAND_IN):
        told = look(outcome, given.mutant, again_by(given, f"in this folder: {replayed_by('.', shrunk)}"), which=run)
    why = f"{outcome.kind} ({outcome.signature})\n{text_of(told)}" if outcome.kind else "ok\n"
    if outcome.kind and project.current():
        why += f"{project.STAND_IN} stands for the folder of the project with the protocol {given.scenario!r}.\n"
    report = facts(outcome, given) + f"{run}\n" * bool(run) + why
    return files_of(given, outcome, code, report, page_of(told), SHRUNK if shrunk else "")


def bundle(outcome: Outcome, given: Run, folder: Path, shrunk: tuple[Outcome, Run] | None = None) -> None:
    """Write a bundle of a run, and of the run that it was shrunk to. Refuses an unwritable folder, and one with other files."""
    folder, code = folder.resolve(), code_version()
    if folder == Path.cwd():
        refuse(f"{folder} is the working folder, which a bundle would replace: give another folder")
    try:
        files = kept(outcome, given, code, False if shrunk else None)
        if shrunk:
            files |= kept(*shrunk, code, True)
        write(folder, given, outcome, code, files)
    except Refused as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{folder} cannot be written: {error.strerror}")
