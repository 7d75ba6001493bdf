"""The combinations of the policies of a client of sequenced metadata, for docs/composition.md. Nothing is typed by hand."""

from collections.abc import Iterator

from highwater.dst.scenarios import known_latest, manifest_migration, update_ids
from highwater.dst.script import Alone
from highwater.dst.scripts.sequenced_metadata import COMBINATIONS
from highwater.impl.protocols import manifest_compactions, manifest_epochs
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies, compactions_store, manifest_store

COLUMNS = ("boundary", "epoch", "recognise", "keep_latest", "spare_checkpoints")


def clients() -> Iterator[tuple[str, MetadataStore]]:
    """Yield each protocol's clients, as the protocol makes them."""
    world = Alone().world
    yield "boundary protocol, manifest", manifest_store(world, "db")
    yield "boundary protocol, compactions", compactions_store(world, "db")
    yield "`update_ids`", update_ids.production(world, manifest_store(world, "db").bounded.storage.namespace, True, 0)
    yield "`known_latest`", known_latest.production(world, manifest_store(world, "db").bounded.storage.namespace, False, 0)
    yield "`manifest_migration`", manifest_migration.production(world, manifest_migration.Shape(), 2).store
    yield "`manifest_epochs`, instances", manifest_epochs.store_of(world, "db", "writer")
    yield "`manifest_epochs`, readers", manifest_epochs.store_of(world, "db")
    yield "`manifest_compactions`", manifest_compactions.stores_of(world, "db").manifest


def policies() -> str:
    """Return a table with a row for each combination: whose it is, or why it is refused."""
    used: dict[Policies, list[str]] = {}
    for name, of in clients():
        used.setdefault(shown(of.policies), []).append(name)
    lines = [f"| {' | '.join(COLUMNS)} | |", "|---" * (len(COLUMNS) + 1) + "|"]
    for of in sorted(COMBINATIONS, key=lambda of: (bool(of.refusal()), of not in used)):
        marks = " | ".join("yes" if value else "" for value in of)
        verdict = f"refused: {of.refusal()}" if of.refusal() else "tested" + "".join(f"; {name}" for name in used.get(of, ()))
        lines.append(f"| {marks} | {verdict} |")
    return "\n".join(lines) + "\n"


def shown(of: Policies) -> Policies:
    """Return the policies as a combination, whatever field the epoch is in."""
    return of._replace(epoch="writer_epoch" if of.epoch else "")
