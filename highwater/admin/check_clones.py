"""Checks what ties a database to others: do checkpoints there keep the SSTs that it reads, and does it need them all?"""

from collections.abc import Iterator

from highwater.admin.database import Database
from highwater.admin.findings import Finding, Parents, referenced


def it_is_pinned(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    if not database.latest:
        return
    stuck = False
    for one in database.latest.external_dbs:
        if fault := parents[one.path].fault:
            yield Finding(
                "danger", "parent unreadable",
                f"the latest manifest of {one.path!r} cannot be read: {fault}",
                "nobody can tell whether it keeps the SSTs that this database reads; check the parent")
            continue
        parent = parents[one.path].latest
        pins = {pin.id: pin.manifest_id for pin in parent.checkpoints if pin.active(now_ms)} if parent else {}
        source, final = pins.get(one.source_checkpoint_id), pins.get(one.final_checkpoint_id or "")
        if source and final and source != final:
            yield Finding(
                "danger", "pins differ",
                f"the source checkpoint of {one.path!r} keeps manifest {source}, and the final one manifest {final}",
                "only the final one stays, and it may not name all SSTs that this database reads; make the clone again")
        if not database.latest.initialized and source is None and final is None:
            stuck = True
            yield Finding(
                "danger", "clone stuck",
                f"the clone is unfinished, and {one.path!r} has neither its source checkpoint {one.source_checkpoint_id} nor "
                f"its final one {one.final_checkpoint_id or '(none is named)'}",
                "no further try can finish it: begin it again with `highwater admin clone --restart`, or destroy it")
        elif one.sst_ids and final is None:
            yield Finding(
                "danger", "clone not pinned",
                f"{one.path!r} has no checkpoint {one.final_checkpoint_id or '(none is named)'}, which should keep "
                f"{len(one.sst_ids)} SSTs for this database",
                "its collector may delete them; compact everything here soon")
    if not database.latest.initialized and not stuck:
        yield Finding(
            "danger", "not initialized",
            "the latest manifest is that of an unfinished clone",
            "a writer can open it, but its parent may delete SSTs that it reads; give the command again that makes it")


def each_pin_is_needed(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that each external database has an SST that the latest manifest shows, or one that a checkpoint keeps."""
    if not database.latest or not database.latest.initialized:
        return
    kept = referenced(database, now_ms)
    shown = {view.sst_id for file in database.manifests if file.value and (file is database.manifests[-1] or file.id in kept)
             for view in file.value.views}
    for one in database.latest.external_dbs:
        if not shown & {*one.sst_ids}:
            yield Finding(
                "note", "pin not needed",
                f"nothing here reads an SST of {one.path!r} any more, and checkpoint "
                f"{one.final_checkpoint_id or one.source_checkpoint_id} there still keeps them",
                "`highwater admin detach` deletes that checkpoint, and then the entry in external_dbs")
