"""The tables of calls: they have every error and every call of the implementation, and an answer that they lack is refused."""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, named
from highwater.dst.simulate import simulate
from highwater.impl import errors, layout
from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.traces.calls import ALONE, DEFINITE, INDEFINITE, NEVER, NONE, PARTLY, RETURNED, outcomes
from highwater.traces.event import Event, from_json, to_json
from highwater.traces.machines import node_of
from highwater.traces.protocols import wal_fencing_calls
from highwater.traces.refine import Failure

ROOT = Path(__file__).resolve().parents[2]
TABLES = {stem: table for stem in STEMS if not named(stem).model
          and (table := import_module(f"highwater.traces.protocols.{stem}").Trace.calls)}
UNSAID = {  # errors that no table has -> why
    "StoreError": "the base of all", "Definite": "a base", "Indefinite": "a base", "Fenced": "a base",
    "TaskCancelled": "of a task, which no call returns", "Unpinned": "caught where it is raised, and the job pinned anew",
    **dict.fromkeys(("FolderRefused", "Damaged", "OtherNode", "OtherSettings", "HalfChanged", "OtherVersion",
                     "TermSpoilt"),
                    "a Raft node does not start in such a folder"),
    **dict.fromkeys(("Malformed", "UnknownForm"), "of a message, which a node drops"),
    **dict.fromkeys(("AddressInUse", "NotEncrypted", "BadCertificate", "TooFewFiles"), "a process does not start with it"),
    "HandshakeRefused": "of a connection, which is dialled again",
    "ConfigRefused": "an index does not open with such numbers", "EntryMissing": "of a machine that Raft does not drive",
    "InvalidKey": "of an ordered store: rows have no such keys", "UnknownEntry": "of an entry of a newer release",
    **dict.fromkeys(("DamagedMessage", "DamagedRow", "DamagedFooter", "DamagedSnapshot"), "of bytes that no index has written"),
    **dict.fromkeys(("InvalidPartition", "MalformedLabels", "UnknownString"), "of a block: it is raised as InvalidArgument"),
    **dict.fromkeys(("QueryTooLong", "QueryTooCostly", "QueryStopped"),
                    "of a query beyond its limits: dst/scripts/indexed/queries.py"),
    **dict.fromkeys(("InvalidQuery", "InvalidSelector", "InvalidRegex"), "of a query: it is raised as InvalidArgument"),
    "OverLimit": "of the calls over a network: dst/scripts/indexed/service.py",
    **dict.fromkeys(("Refused", "Unclear"), "of the calls over a network: tests/impl/index/test_index_service.py"),
    **dict.fromkeys(("JobLost", "DamagedObject"), "of a worker, which ends its job: dst/scripts/indexed/worker.py"),
    "Oversize": "a sweeper leaves such an object: dst/scripts/indexed/letters.py",
    "Altered": "a Raft node stops with it: dst/scripts/replicated/levels.py",
    "InvalidLetter": "a sweeper moves such a letter: dst/scripts/indexed/letters.py",
    "OtherLayout": "of a program that reads a bucket whole: tests/index/test_index_bucket.py",
    "NoRows": "of the rows in a file of lmdb: tests/impl/index/test_index_fuzz.py",
    "PolicyRefused": "an index is not served with such periods",
    "BeyondEnd": "of a range, and only reads of SSTs ask for ranges",
    "Undecodable": "of a codec: it is raised as one of its kinds, such as InvalidManifest",
}
LEASED = ("compaction_queue", "metadata_fsm")  # only an answer says which lease a worker has
MISSING = {"store_primitives"}  # the calls of a store are judged by their kind of response
ALSO = {  # protocol -> modules whose errors its table has, too
    "sequenced_metadata_boundary": ("update_ids",), "log_gc": ("sequenced_metadata_boundary",),
    "manifest_compactions": ("sequenced_metadata_boundary",), "manifest_migration": ("sequenced_metadata_boundary",),
    "database_metadata": ("manifest_compactions", "wal_fencing"),
    "database_gc": ("database_gc_uploads", "database_metadata", "manifest_compactions", "sequenced_metadata_boundary"),
    "db_reader": ("db_reader_view", "checkpoints", "database_gc"),
    "clones": ("clones_manifest", "checkpoints", "destroy_mark"),
    "checkpoints": ("destroy_mark",), "destroy": ("checkpoints", "destroy_mark"),
    **dict.fromkeys(("raft", "raft_membership", "consistent_read", "log_snapshot", "metadata_fsm", "compaction_queue"),
                    ("raft_faults",)),
    **dict.fromkeys(("dlq_recovery", "index_retention", "index_reads"), ("index_library", "raft_faults")),
    "metadata_fsm": ("raft_faults", "index_answers"),
}
ROOMS = {  # of what is not in impl/protocols
    **dict.fromkeys(("raft", "raft_membership", "consistent_read", "log_snapshot"), "raft.node"), "raft_faults": "raft.faults",
    "dlq_recovery": "index.letters.writer", "sweeper": "index.letters.sweeper", "index_library": "index.library",
    "index_answers": "index.query.answers", "index_retention": "index.retention", "index_reads": "index.reader",
    **dict.fromkeys(("metadata_fsm", "compaction_queue"), "index.library")}
# protocol -> modules whose calls its table has, too
CALLS_OF = {"sequenced_metadata_boundary": ("sequenced_metadata", "update_ids"), "database_gc": ("database_gc_uploads",),
            "dlq_recovery": ("sweeper",)}
# their errors are in the tables of the protocols that are made of them
PARTS = ("boundary_object", "sequenced_storage", "sequenced_metadata")


def protocol(stem: str) -> ModuleType:
    return import_module(f"highwater.impl.{ROOMS.get(stem, f'protocols.{stem}')}")


def modules(*rooms: str) -> Iterator:
    for room in rooms:
        for path in sorted((ROOT / "impl" / room).rglob("*.py")):
            if path.name != "__init__.py":
                yield import_module("highwater." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))


def defined() -> set[str]:
    """Return the names of all errors that impl/ defines."""
    rooms = (errors, layout, *modules("codecs", "protocols", "kv", "stores", "raft", "index"))
    return {name for module in rooms for name, kind in vars(module).items()
            if isinstance(kind, type) and issubclass(kind, StoreError) and kind.__module__ == module.__name__}


def said() -> Iterator[tuple[str, str, str, object]]:
    """Yield protocol, call, class and answer of each row."""
    for stem, calls in TABLES.items():
        for call, answers in calls.items():
            for result, answer in answers.items():
                yield stem, call, result, answer


def test_every_protocol_has_a_table():
    assert TABLES.keys() == {stem for stem in STEMS if not named(stem).model} - MISSING


def test_every_error_of_the_implementation_is_in_a_table():
    in_tables = {result for _, _, result, answer in said() if answer.kind != RETURNED}
    assert defined() - in_tables == UNSAID.keys() and in_tables <= defined()


@pytest.mark.parametrize("stem", TABLES)
def test_an_error_of_a_table_is_of_its_kind(stem):
    own = [*map(protocol, (stem, *ALSO.get(stem, ()), *PARTS)), *modules("codecs"), errors, layout]
    for call, answers in TABLES[stem].items():
        for result, answer in answers.items():
            if answer.kind == RETURNED:
                continue
            kind = next(vars(module)[result] for module in own if result in vars(module))
            assert issubclass(kind, Definite) == (answer.kind == DEFINITE), (call, result)
            assert issubclass(kind, Indefinite) == (answer.kind == INDEFINITE), (call, result)


SEVERAL = {  # calls of several updates: a definite error denies the last of them, and the earlier ones stay
    ("manifest_compactions", "open"), ("manifest_compactions", "compact"), ("manifest_migration", "begin_v2_only"),
    ("wal_fencing", "open"), ("database_metadata", "open"), ("database_metadata", "open_compactor"),
    ("database_metadata", "compact"), ("database_gc", "open"), ("database_gc", "compact"),
    ("db_reader", "open"),
    ("destroy", "finish"), ("clones", "clone"), ("clones", "detach"),
}


def test_a_definite_error_says_that_nothing_happened():
    for row in said():
        answer = row[3]
        never = (NEVER, NONE, PARTLY) if row[:2] in SEVERAL else (NEVER, NONE)
        assert answer.kind != DEFINITE or answer.update in never, row
        assert answer.kind != INDEFINITE or answer.update != NEVER, row


@pytest.mark.parametrize("stem", TABLES)
def test_a_response_means_one_thing(stem):
    means = outcomes(TABLES[stem])
    for answers in TABLES[stem].values():
        for answer in answers.values():
            assert answer.update in (NONE, PARTLY) or means[answer.told] == outcomes({"": {"": answer}})[answer.told], answer


def public_calls(stem: str) -> set[str]:
    """Return the names of the public coroutines that a protocol's modules define."""
    bodies = [ast.parse(inspect.getsource(protocol(one))).body for one in (stem, *CALLS_OF.get(stem, ()))]
    bodies += [node.body for body in bodies for node in body if isinstance(node, ast.ClassDef)]
    return {node.name for body in bodies for node in body
            if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_")}


OF_OPERATORS = {"open": "of the operator: no caller waits for it", "close": "which raises nothing",
                "raise_level": "of a cluster's server: no caller waits for it", "settled": "propose, of an index",
                "confirm_clock": "of the operator: no caller waits for it"}
OF_FIXED_MEMBERS = {**OF_OPERATORS, "change": "of raft_membership"}
PARTS_OF_READS = {"rows": "get", "stamp_ns": "add"}
NOT_CALLS = {  # public coroutines that are no calls of users -> the call that they are a part of, or that is a part of them
    "wal_fencing": {"fenced_at": "open", "refresh": "the read that an append makes, too; the database calls it alone"},
    "manifest_epochs": {"open_writer": "open", "open_compactor": "open", "open_collector": "open", "opened": "open"},
    "sequenced_write": {"create": "update"},
    "sequenced_metadata_boundary": {"list": "update", "latest": "update", "create": "update", "apply": "update",
                                    "claim": "open, of other protocols"},
    "database_gc": {
        "plan": "collect", "delete": "collect", "rounds": "collect", "go_on": "collect", "upload": "flush", "commit": "flush",
        "append": "of a writer of the scenario", "read_checkpoint": "of an operator of the scenario",
        **dict.fromkeys(("take_checkpoint", "renew_checkpoint", "drop_checkpoint"), "of database_metadata"),
    },
    "db_reader": {
        "poll": "open", "refresh": "of the refresher", "close": "which raises nothing", "get": "rows", "rows_of": "rows",
        "append": "of the writer of the scenario", "flush": "of the writer of the scenario",
        "compact": "of the writer of the scenario", "collect": "of database_gc",
    },
    "manifest_migration": {"update": "of the stores", "collect": "of the stores"},
    "raft_membership": OF_OPERATORS,
    **dict.fromkeys(("raft", "consistent_read"), OF_FIXED_MEMBERS),
    "log_snapshot": {**OF_FIXED_MEMBERS, "transfer": "of raft"},
    "metadata_fsm": {**OF_OPERATORS, **PARTS_OF_READS, "transfer": "of raft"},
    "compaction_queue": {**OF_OPERATORS, **PARTS_OF_READS, "transfer": "of raft",
                         **dict.fromkeys(("query", "query_labels", "tenants", "tenant", "overdue", "confirm", "truncate"),
                                         "of metadata_fsm")},
    "index_retention": {"cleaned": "clean", "run": "which cleans again and again"},
    "dlq_recovery": {"leave": "add", "swept": "sweep", **dict.fromkeys(("handle", "one", "settle", "copy", "ended"), "sweep"),
                     "run": "which sweeps again and again"},
    "checkpoints": {"update": "of the stores", "collect_named": "collect"},
    "destroy": {"fence": "of `admin destroy`: the scenario has no WAL",
                "release": "finish", "others_of": "finish", "create": "of checkpoints",
                "delete": "of checkpoints", "commit": "of a writer of the scenario"},
    "clones": {"opened": "open", **dict.fromkeys(("source_of", "existing", "begin", "first", "restart", "pin", "copy_wal",
                                                 "initialize", "give_up", "is_over", "check_pinned"), "clone"),
               "release": "detach", "remove": "detach",
               **dict.fromkeys(("append", "flush"), "of a writer of the scenario"), "open": "opened",
               **dict.fromkeys(("create", "delete", "collect"), "of checkpoints")},
    "database_metadata": {
        "append": "of the Wal that `open` returns", "flush": "of the Wal", "open_compactor": "Compactor.open",
        "compact": "of a Compactor", "current": "of the stores", "drop_ended": "of the stores", "read": "open",
        "read_again": "append", "put": "flush", "checkpoint_all": "flush, and then `create` of checkpoints",
    },
}


@pytest.mark.parametrize("stem", TABLES)
def test_every_call_has_a_row(stem):
    besides = NOT_CALLS.get(stem, {}).keys()
    assert public_calls(stem) - besides == TABLES[stem].keys() - besides


# --- the judge



def signature(stem: str, events: list[Event], shape: object) -> str:
    trace = named(stem).judge(shape)
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


@pytest.mark.parametrize("stem", [stem for stem in TABLES if stem not in LEASED])
def test_a_trace_without_answers_is_judged_as_before(stem):
    """Traces of earlier releases have none, and no response that is nothing but an answer; of nodes one ends its call."""
    for seed in range(20):
        run = simulate(Run(seed, stem))
        told = [e._replace(keys=()) if e.kind == "told" else e for e in run.events
                if e.kind != "told" or e.op not in ALONE or node_of(e.client) != e.client]
        assert signature(stem, told, run.shape) == ""


@pytest.mark.parametrize("stem", TABLES)
def test_a_false_answer_is_refused(stem):
    run = next(run for run in (simulate(Run(seed, stem)) for seed in range(200))
               if not run.shape.broken and any(e.kind == "told" and len(e.keys) > 3 for e in run.events))
    at = next(at for at, e in enumerate(run.events) if e.kind == "told" and len(e.keys) > 3)
    call, result, kind, *claims = run.events[at].keys
    assert from_json(to_json(run.events[at])) == run.events[at] and signature(stem, run.events, run.shape) == ""
    for wrong in ((call, "Missing", kind), (call, result, "definite", *claims), (call, result, kind),
                  (call, result, kind, claims[0] + "0", *claims[1:]), ("uncalled", result, kind, *claims)):
        events = [*run.events[:at], run.events[at]._replace(keys=wrong), *run.events[at + 1:]]
        assert signature(stem, events, run.shape).startswith("call:"), wrong


def test_a_last_conflict_with_what_the_call_put_itself_is_none_of_its_attempts():
    """In this run a create has no response, and its repetition is the fourth conflict of four attempts."""
    outcome = simulate(Run(1001, scenario="sequenced_write"))
    assert not outcome.kind and any("attempts=4" in e.keys and e.key.endswith("5.sst") for e in outcome.events)


def test_an_answer_that_is_given_twice_has_no_request_the_second_time():
    """The very same event occurs again: it ends another call."""
    outcome = next(found for found in (simulate(Run(seed)) for seed in range(50))
                   if any(e.op == "deleted" and e.keys for e in found.events))
    at = next(number for number, e in enumerate(outcome.events) if e.op == "deleted" and e.keys)
    trace = named("sequenced_metadata_boundary").judge(outcome.shape)
    for e in outcome.events[:at + 1]:
        trace.observe(e)
    with pytest.raises(Failure, match="this call has sent no request"):
        trace.observe(outcome.events[at])


@pytest.mark.parametrize("late, why", [(False, "a put of this call was applied, or may have been"), (True, "")])
def test_a_put_of_an_earlier_call_may_arrive_in_one_that_changes_nothing(late, why):
    """Found by seed 76,720 of database_clones: a first manifest came 600 ms late, when it could change nothing any more."""
    put = Event(1, 1, "Writer#0", "applied", "create", "db/manifest/2", "", 200, "", b"", (), False, not late)
    said = "flush", "FencedUnapplied", DEFINITE, "unapplied="
    told = Event(2, 0, "Writer#0", "told", "not flushed", "", "", 0, "", b"", said)
    trace = SimpleNamespace(events=[put, told], by_client={"Writer#0": [put]})
    assert wal_fencing_calls.is_unapplied(trace, told, "") == why
