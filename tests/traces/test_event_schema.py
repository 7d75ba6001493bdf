"""The JSON Schema of an event and our reader agree: what the schema accepts is read, and what we write it accepts."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS
from highwater.dst.simulate import simulate
from highwater.traces import event
from highwater.traces.event import Event, from_json, to_json

SCHEMA = json.loads((Path(event.__file__).parent / "event.schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)
GOOD = {"client": "Writer#0", "kind": "applied", "op": "create", "key": "db/a", "request": 1, "status": 200, "version": "1"}
SENT = {"v": 2, "client": "Node#0", "kind": "sent", "op": "message", "key": "Node#1", "request": 3, "body": "hello"}
DISK = {"v": 2, "client": "Node#0/log", "kind": "disk", "op": "append", "key": "log", "request": 4, "status": 507, "body": "a"}
TOLD = {"client": "Writer#0", "kind": "told", "op": "committed", "body": "0.0"}


def is_read(fields: dict) -> bool:
    try:
        from_json(json.dumps(fields))
    except ValueError:
        return False
    return True


def test_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described_with_its_default():
    fields = SCHEMA["properties"]
    assert list(fields) == ["v", *Event._fields]
    for name, usual in event.EMPTY._asdict().items():
        assert fields[name]["description"].endswith(".")
        if name not in SCHEMA["required"]:
            plain = usual.decode() if isinstance(usual, bytes) else list(usual) if isinstance(usual, tuple) else usual
            assert fields[name]["default"] == plain and type(fields[name]["default"]) is type(plain)


@pytest.mark.parametrize("stem", STEMS)
def test_what_we_write_is_accepted(stem):
    events = [of for seed in range(3) for of in simulate(Run(seed, stem)).events]
    lines = {to_json(of._replace(t_ms=0)) for of in events[:400]}
    for line in sorted(lines):
        assert not list(VALID.iter_errors(json.loads(line))), line


@pytest.mark.parametrize("fields", [GOOD, TOLD, {**GOOD, "kind": "timeout", "status": 0, "version": "", "pending": True},
                                    {**GOOD, "kind": "refused", "status": 403, "version": ""}, {**GOOD, "v": 1},
                                    {**GOOD, "op": "get_range", "status": 206, "condition": "bytes=0-99", "body": "b"},
                                    {**GOOD, "op": "get_range", "status": 416, "condition": "bytes=7-7", "version": ""}])
def test_an_event_is_accepted_and_read(fields):
    assert VALID.is_valid(fields) and is_read(fields)


@pytest.mark.parametrize("wrong", [
    {"t_ms": "1"}, {"t_ms": 1.5}, {"t_ms": True}, {"request": None}, {"client": 3}, {"key": None}, {"body": 7}, {"keys": "a"},
    {"keys": [1]}, {"truncated": 0}, {"awaited": "yes"}, {"unheard": True}, {"v": 3}, {"v": 0}, {"v": "1"}])
def test_both_refuse_a_wrong_type_or_name(wrong):
    assert not VALID.is_valid({**GOOD, **wrong}) and not is_read({**GOOD, **wrong})


@pytest.mark.parametrize("wrong", [
    {"kind": "done"}, {"op": "patch"}, {"request": 0}, {"status": 500}, {"pending": True}, {"op": "update"}, {"client": ""},
    {"op": "get_range", "status": 206}, {"op": "get_range", "status": 206, "condition": "0-99"},
    {"op": "get_range", "status": 206, "condition": "bytes=01-2"}])
def test_the_schema_refuses_what_no_store_does(wrong):
    """Our reader leaves these to the mapping, which refuses them at the event."""
    assert not VALID.is_valid({**GOOD, **wrong})


NODES = [
    SENT, {**SENT, "kind": "received", "body": ""}, DISK,
    {**DISK, "op": "rename", "condition": "log-1", "status": 200, "body": ""},
    {"v": 2, "client": "Node#0", "kind": "step", "op": "Tick", "body": "{}"},
    {"v": 2, "client": "Node#0", "kind": "died", "op": "machine", "keys": ["log: page 1 is lost"]},
    {"v": 2, "client": "Node#0", "kind": "started", "op": "process"}]


@pytest.mark.parametrize("fields", NODES)
def test_an_event_of_a_node_is_of_version_2_and_no_other_is(fields):
    assert VALID.is_valid(fields) and json.loads(to_json(from_json(json.dumps(fields)))) == {
        name: value for name, value in fields.items() if value != ""}
    for version in ({}, {"v": 1}):
        older = {name: value for name, value in fields.items() if name != "v"} | version
        assert not VALID.is_valid(older) and not is_read(older)
    assert VALID.is_valid({**GOOD, "v": 2}) and json.loads(to_json(from_json(json.dumps({**GOOD, "v": 2}))))["v"] == 1


@pytest.mark.parametrize("wrong", [
    {**SENT, "request": 0}, {**SENT, "key": ""}, {**SENT, "status": 200}, {**SENT, "kind": "received"},
    {**SENT, "op": "append"}, {**DISK, "status": 0}, {**DISK, "op": "put"}, {**DISK, "pending": True},
    {**NODES[-1], "op": "lock"}, {**NODES[-2], "body": "a"}])
def test_the_schema_refuses_what_no_node_does(wrong):
    assert not VALID.is_valid(wrong)


@pytest.mark.parametrize("wrong", [{"request": 1}, {"status": 200}, {"condition": "1"}, {"keys": ["a"]}, {"awaited": False}])
def test_a_told_line_has_a_key_and_a_body_only(wrong):
    assert not VALID.is_valid({**TOLD, **wrong})


VALUES = {name: st.one_of(st.just(SCHEMA["properties"][name].get("default", "Writer#0")), st.integers(-1, 500), st.booleans(),
                          st.text(max_size=3), st.lists(st.text(max_size=2), max_size=2),
                          st.sampled_from(["applied", "told", "timeout", "create", "get", "committed", "disk", "sent",
                                           "append"]))
          for name in SCHEMA["properties"]}


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_what_the_schema_accepts_is_read(fields):
    fields = {**GOOD, **fields}
    assert is_read(fields) or not VALID.is_valid(fields)
