"""Safety: what the clients of a migration do, sequenced_files allows, whatever version they write. Old files are collected.

A writer that is ready to put knows the updates of the manifest that it read. The abstract model has no versions of formats.
"""

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client, File
from highwater.model.protocols.manifest_migration import Constants, Shared, Update, Writer
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
INSTANCES: tuple[dict[str, int], ...] = ({"UPDATES": 1, "MAX_PENDING": 1}, {"UPDATES": 1, "FIRST": 2})
OFF = ({"REFUSE": False, "UPDATES": 3, "FIRST": 1},)


def updates(those: frozenset[Update]) -> frozenset[abstract.Update]:
    return frozenset((writer, (k, new)) for writer, k, new in those)


def shared(c: Constants, s: Shared) -> abstract.Shared:
    files = {file_id: File(updates(those)) for file_id, _, those in s.files}
    return abstract.Shared(
        tuple(files.get(i) for i in range(1, s.files[-1][0] + 1)), 0,
        frozenset(("Create", file_id, File(updates(those))) for file_id, _, those in s.pool), updates(s.acked), frozenset())


def writer(c: Constants, me: int, w: Writer) -> Client:
    return Client(read=frozenset({(w.base, File(updates(w.known)))}) if w.pc == "Ready" else frozenset())


STEPS = {
    "Writer": {"Read": ("Read",), "CreateNext": ("Create", "Acknowledge"), "SendCreate": ("Send",)},
    "": {"Collect": ("Collect",), "ApplyPending": ("Apply", "Drop")},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.WRITERS, BOUNDARY=False, COLLECTED=True))
    return Refinement(onto, shared, {"Writer": writer}, STEPS, abstract.forgets, abstract.GIVEN)
