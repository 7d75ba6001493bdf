"""What the verbs of `highwater dst` say of a run, and what they keep of it."""

from pathlib import Path

from cli.console import STEM, build_of, console, refuse
from dst.bundle import SHRUNK, Given, Refused, code_version, files_of, write
from dst.scenarios.sequenced_metadata_boundary import Shape, namespace, trace_of, with_profile
from dst.simulate import Outcome, replay_command
from dst.strategies import STRATEGIES
from dst.world.profiles import PROFILES


def strategy_of(name: str) -> str:
    if name != "portfolio" and name not in STRATEGIES:
        refuse(f"there is no strategy {name!r}; there are portfolio, {', '.join(STRATEGIES)}")
    return name


def given_of(seed: int, mutant: str | None, strategy: str, profile: str | None = None) -> Given:
    build_of(mutant)
    if profile is not None and profile not in PROFILES:
        refuse(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
    return Given(STEM, seed, mutant, strategy_of(strategy), profile and with_profile(seed, profile))


def command_of(given: Given) -> str:
    """What shows it again: a run that was shrunk can only be replayed from its tape."""
    if given.shape is None:
        return replay_command(given.seed, given.mutant, given.strategy)
    if given.shape == with_profile(given.seed, given.shape.store) and given.weights is None:
        return f"{replay_command(given.seed, given.mutant, given.strategy)} --profile {given.shape.store}"
    return "highwater dst replay BUNDLE --shrunk"


def facts(outcome: Outcome, given: Given) -> str:
    shape = ", ".join(f"{name} {value}" for name, value in outcome.shape._asdict().items())
    drawn = f", drawn from the {given.strategy}" if given.strategy != outcome.strategy else ""
    return (f"seed {outcome.seed}: {outcome.requests} requests in {outcome.virtual_ms:,} ms of virtual time; {shape}; "
            f"strategy {outcome.strategy}{drawn}\ntrace {outcome.digest}\n")


def report(outcome: Outcome, given: Given) -> None:
    """What a run was, and if it failed why, to the line."""
    console.print(facts(outcome, given), end="")
    if not outcome.kind:
        console.print("[green]ok[/]: the trace refines the model, nobody was told an untruth, everybody got on")
        return
    from traces.explain import explain

    console.print(f"[bold red]{outcome.kind}[/] ({outcome.signature})")
    console.print(explain(outcome.events, outcome.failure, trace_of(outcome.shape), command_of(given)), markup=False)


def kept(outcome: Outcome, given: Given, code: str, prefix: str = "") -> dict[str, str]:
    """The files of a run in a bundle."""
    from cli.explain import look, text_of
    from cli.timeline import page_of

    told = look(outcome, given.mutant, command_of(given))
    why = f"{outcome.kind} ({outcome.signature})\n{text_of(told)}" if outcome.kind else "ok\n"
    return files_of(given, outcome, code, facts(outcome, given) + why, page_of(told), prefix)


def bundle(outcome: Outcome, given: Given, folder: Path, shrunk: tuple[Outcome, Given] | None = None) -> None:
    """Refuses a folder that cannot be written, or that holds something else."""
    folder, code = folder.absolute(), code_version()
    try:
        files = kept(outcome, given, code)
        if shrunk:
            files |= kept(*shrunk, code, SHRUNK)
        write(folder, given, outcome, code, files)
    except Refused as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{folder} cannot be written: {error.strerror}")


def trace_command(shape: Shape, file: Path) -> str:
    """What holds the trace of a run of this shape against the model."""
    page = f" --page-size {shape.page_size}" if shape.page_size < 1000 else ""
    return f"highwater trace check {file} --namespace {namespace(shape).name}{page}" + (
        f" --skew-ms {shape.skew_ms}" if shape.skew_ms else "") + " --retries" * bool(shape.sdk)
