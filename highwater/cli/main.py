"""Define the `highwater` command and its subcommands. Each imports its libraries when it runs."""

import sys
from io import TextIOWrapper
from itertools import pairwise
from typing import Annotated

import typer

from highwater import __version__
from highwater.cli import (
    admin,
    client,
    cost,
    db,
    demo,
    docs,
    index,
    index_bucket,
    index_clock,
    index_letters,
    index_periods,
    index_story,
    new,
    raft,
    store,
    verify,
)
from highwater.cli.campaign import app as campaign
from highwater.cli.dst import app as dst
from highwater.cli.guard import guarded
from highwater.cli.model import app as model
from highwater.cli.project import USERS, WithProject
from highwater.cli.trace import app as trace
from highwater.gate.exits import INCOMPLETE, INTERRUPTED
from highwater.gate.extras import install_command

app = typer.Typer(cls=WithProject, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Verify, simulate and check the metadata protocols of databases on object storage.")


def print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"highwater {__version__}")
        raise typer.Exit


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", is_eager=True, callback=print_version,
                                                  help="print the version, and exit")] = False) -> None: ...


def add(name: str, group: typer.Typer, subject: str, parent: typer.Typer = app) -> None:
    """Add a group of verbs. Its help is the subject and the name of every verb, so the group must be complete."""
    verbs = [verb.name or "" for verb in (*group.registered_commands, *group.registered_groups)]
    parent.add_typer(group, name=name, help=f"{subject}: {' | '.join(verbs)}")


app.command("demo")(demo.demo)
app.command("new")(new.new)
app.command("verify")(verify.verify)
app.command("cost")(cost.cost_command)
app.command("docs")(docs.docs)
add("model", model.app, "States, walks and proofs of a protocol's model")
add("dst", dst.app, "Simulate an implementation with faults, one run for each seed")
add("trace", trace.app, "Record the requests of programs to an S3 server, and check traces against the models")
add("client", client.app, "Try a program that commits through an object store, with faults at each of its requests")
add("store", store.app, "Test a store for every guarantee that the protocols rely on")
add("admin", admin.app, "SlateDB databases in a folder or a bucket")
add("db", db.app, "Rows of a SlateDB database, read and written without SlateDB")
add("raft", raft.app, "A replicated cluster of processes")
index.app.command("admit")(index_letters.admit_command)
index.app.command("clock")(index_clock.clock_command)
index.app.command("reset-clock")(index_clock.reset_clock_command)
index.app.command("retention")(index_periods.retention_command)
index.app.command("rebuild")(index_bucket.rebuild_command)
index.app.command("report")(index_bucket.report_command)
index.app.command("story")(index_story.story_command)
add("dlq", index_letters.app, "Blocks that writers could not add", parent=index.app)
add("index", index.app, "A metadata index of objects")
add("campaign", campaign.app, "Run many seeds, on Spark or in local processes, and ask about their rows")


def main() -> None:
    """Run the command line. A verb that runs the code under test runs in a child process (guard.py). Characters that the
    output cannot have, as halves of surrogate pairs, are printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = [word for before, word in pairwise(sys.argv) if before != "--project" and not word.startswith("-")]
    sys.exit(guarded(run) if words[:1] and words[0] in USERS else run())


def run() -> int:
    """Run the verb, and return its exit code: 130 after Ctrl-C. If a library of an extra is missing, print how to install it
    and return 3."""
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        command = install_command(error)
        if not command:
            raise
        print(f"error: this needs the library {error.name}, which is not installed: {command}", file=sys.stderr)
        return INCOMPLETE
    return 0


if __name__ == "__main__":
    main()
