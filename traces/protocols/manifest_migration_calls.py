"""What each call of impl/protocols/manifest_migration.py, and of its stores, may say to its caller, and what is true then."""

from highwater.traces.calls import DEFINITE, NEVER, NONE, PARTLY, Answer, Calls, definite, indefinite, returns, with_timeouts
from highwater.traces.protocols import sequenced_metadata_boundary_calls as boundary

PHASE = "the content has a field that the phase of this writer has no place for: begin the next phase"
UNREAD = "the latest manifest is of a version that this phase does not read, or damaged"


def of_codec(refused: str, update: str) -> dict[str, Answer]:
    """Return the errors of SlateDB's codec."""
    return {
        "CannotHold": definite(refused, PHASE, update),
        "NewerFields": definite(refused, "the manifest has fields that a later release wrote: update this one", update),
        "InvalidFile": definite("unreadable" if update == NEVER else refused, UNREAD, update),
        "DamagedBuffer": definite(refused, "the manifest is damaged: mend it", update),
    }


def in_part(answer: Answer) -> Answer:
    """Return an answer of the update that `begin_v2_only` begins with."""
    kind = definite if answer.kind == DEFINITE else indefinite
    return kind("not begun", answer.means, PARTLY)


CALLS: Calls = with_timeouts({
    "begin_v2_only": {
        "MetadataStore": returns("began", "no V1 manifest is there, and none will come: this store reads and writes V2 only",
                                 update=NONE),
        "V1Remains": definite("remains", "go on in phase 2 until they are superseded and collected", PARTLY),
        **{name: in_part(answer) for name, answer in {**boundary.UPDATE, **of_codec("not begun", PARTLY)}.items()
           if answer.kind != "returned" and name != "InvalidManifest"},
    },
    "update": {**{name: answer for name, answer in boundary.UPDATE.items() if name != "InvalidManifest"},
               "ObjectVersionBehindBoundary": indefinite("unknown", boundary.LOOK), **of_codec("refused", NEVER)},
    "collect": {**{name: answer for name, answer in boundary.COLLECT.items() if name != "InvalidManifest"},
                **of_codec("not deleted", NONE)},
})
JUDGES = boundary.JUDGES
