"""Define the `highwater` command and its subcommands. Each imports its libraries when it runs."""

import sys

import typer

from highwater.cli import (
    admin,
    client,
    cost,
    db,
    index,
    index_bucket,
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
from highwater.cli.model import app as model
from highwater.cli.project import WithProject
from highwater.cli.trace import app as trace
from highwater.gate.exits import INCOMPLETE
from highwater.gate.extras import install_command

app = typer.Typer(cls=WithProject, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Verify, simulate and check the metadata protocols of databases on object storage.")
app.command("new")(new.new)
app.command("verify")(verify.verify)
app.command("cost")(cost.cost_command)
app.add_typer(model.app, name="model", help="explore | walk | step | conform | prove")
app.add_typer(dst.app, name="dst",
              help="run | replay | shrink | explain | timeline | export | doctor | lint | zoo | mutate | coverage | exhaust")
app.add_typer(trace.app, name="trace", help="check: compare a recorded trace with the model | damage: test the checker | "
                                            "record: log the requests that programs send to an S3 server")
app.add_typer(client.app, name="client", help="test: try a program that commits through an object store, with faults at each "
                                              "of its requests")
app.add_typer(store.app, name="store", help="probe: test a store for every guarantee that the protocols rely on")
app.add_typer(admin.app, name="admin", help="inspect | history | check | gc | checkpoint | clone | project | union | detach | "
                                            "destroy: for SlateDB databases in a folder or a bucket")
app.add_typer(db.app, name="db", help="get | scan | dump-sst | dump-wal: rows of a SlateDB database, read without SlateDB")
app.add_typer(raft.app, name="raft", help="serve | status | transfer | join | leave | rejoin | recover | check: a replicated "
              "cluster of processes")
index.app.command("retention")(index_periods.retention_command)
index.app.command("rebuild")(index_bucket.rebuild_command)
index.app.command("report")(index_bucket.report_command)
index.app.command("story")(index_story.story_command)
index.app.add_typer(index_letters.app, name="dlq", help="list | readd: blocks that writers could not add")
app.add_typer(index.app, name="index", help="serve | add | query | labels | tenants | work | status | snapshot | restore | "
                                              "check | rebuild | report | retention | story | dlq: a metadata index of objects")
app.add_typer(campaign.app, name="campaign", help="run | resume | status | report | triage | sql | views | tidy: many seeds, "
                                                           "on Spark or local processes")


def main() -> None:
    """Run the command line. If a library of an extra is missing, print how to install it and exit with 3."""
    try:
        app()
    except ModuleNotFoundError as error:
        command = install_command(error)
        if not command:
            raise
        print(f"error: this needs the library {error.name}, which is not installed: {command}", file=sys.stderr)
        sys.exit(INCOMPLETE)


if __name__ == "__main__":
    main()
