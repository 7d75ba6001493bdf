"""highwater admin destroy, for SlateDB databases."""

import json
from typing import Annotated, Any

import typer

from highwater.cli.checkpoint import Json, Url, lifetime_ms
from highwater.cli.console import console, refuse
from highwater.gate.exits import SAFETY


def destroy_command(url: Url, soft: Annotated[bool, typer.Option("--soft", help="mark it, and delete it when the grace is over "
                                                                 "and no checkpoint is listed")] = False,
                    hard: Annotated[bool, typer.Option("--hard", help="mark it and delete it now; exit code 10 if a "
                                                       "checkpoint is listed, which may be a clone's")] = False,
                    grace: Annotated[str | None, typer.Option("--grace", help='of --soft: "7days 30min", from now on')] = None,
                    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be deleted")] = False,
                    as_json: Json = False) -> None:
    """Destroy a database for good. Give the command again to go on, or once the grace is over. A boundary of 2^63-1 stays."""
    from highwater.admin.checkpoints import moment
    from highwater.admin.destroy import REFUSALS, destroyed
    from highwater.cli.admin import asked

    if soft == hard:
        refuse("give --soft or --hard, and not both")
    if hard and grace:
        refuse("--grace goes with --soft: a hard destroy waits for nothing")
    kind, grace_ms = "soft" if soft else "hard", lifetime_ms(grace, "--grace") or 0

    async def ask(world: Any, root: str) -> Any:
        return await destroyed(world, root, kind, grace_ms, dry_run)

    try:
        done = asked(url, ask, dry_run, through=REFUSALS)
    except REFUSALS as error:
        refuse(f"{url}: nothing is destroyed: {error}", SAFETY)
    if as_json:
        print(json.dumps({**done._asdict(), "dry_run": dry_run}, indent=2))
        return
    if done.waits:
        due = moment(done.due_ms // 1000)
        console.print(f"{'would be ' * dry_run}marked ({done.mark}), due {due}: {done.waits}", markup=False)
        return
    for key in done.deleted:
        console.print(f"{'would be ' * dry_run}deleted: {key}", markup=False)
    if not dry_run:
        console.print("destroyed: only the boundary is left, which keeps late requests out", markup=False)
