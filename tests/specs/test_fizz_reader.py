"""The reader of .fizz text understands unusual forms, too."""

import pytest

from highwater.specs.fizzbee.reader import read

ODD = """\
---
# Safety: one claim,
# on two lines.
#
# No part of it.
deadlock_detection: false
SHAM = 1
---

# --- constants
TEXT = "a # b"  # a comment
NEGATIVE=-1
TUPLE\t= (1, (2,))
TWICE = NEGATIVE * 2
SETS = set([1])
LONG = [
  1,
]
lower = 3
TEXT == 4
# OLD = 5

def helper(role, x):
  return [c for c in x]

symmetric role Client(limit):
  action Init:
    self.a = 0  # one
    if self.a:
      self.inner = 1

    self.b = oneof [1, 2]
    self.a = 1

  # Two lines
  # of words.
  atomic fair action Send:
    k = oneof [1, 2]
    oneof:
      self.a = 1
# a comment at the margin
    if k:
      other = oneof [
        1]
    self.b = k

  # --- a heading
  atomic fair<strong> action Strong:
    pass
  atomic func more():
    in_func = oneof [1]

action Init:
  clients = []
  for role in clients:
    n = 1
  state = (1, 2)
  atomic_action = 1

atomic fair action Tick:
  pass
fair action Serial:
  pass

# It never ends.
always eventually assertion Ends:
  return True

# behind it
transition assertion Low(before, after):
  return True
exists assertion Some:
  return True"""


@pytest.fixture(scope="module")
def spec():
    return read(ODD)


def line(text: str) -> int:
    return ODD.split("\n").index(text) + 1


def test_the_claim_is_the_first_paragraph(spec):
    assert spec.claim == "Safety: one claim, on two lines."
    assert read("action Init:\n  x = 1\n").claim == ""


def test_constants(spec):
    names = [constant.name for constant in spec.constants]
    assert names == ["TEXT", "NEGATIVE", "TUPLE", "TWICE", "SETS", "LONG", "lower"]
    assert spec.values == {"TEXT": "a # b", "NEGATIVE": -1, "TUPLE": (1, (2,)), "lower": 3}
    assert [constant.name for constant in spec.constants if not constant.on_one_line] == ["LONG"]
    assert spec.constants[1].line == line("NEGATIVE=-1")
    with pytest.raises(ValueError):
        _ = spec.constants[3].value


def test_what_looks_like_front_matter_and_is_none():
    assert list(read("\n---\nA = 1\n---\n").values) == ["A"]
    assert list(read("---\nA = 1\n").values) == ["A"]


def test_roles_and_their_actions(spec):
    assert [(role.name, role.modifiers) for role in spec.roles] == [("Client", ("symmetric",))]
    assert [(action.role, action.name, action.atomic, action.fair) for action in spec.actions] == [
        ("Client", "Init", False, False), ("Client", "Send", True, True), ("Client", "Strong", True, False),
        ("", "Init", False, False), ("", "Tick", True, True), ("", "Serial", False, True)]
    assert [(function.kind, function.role, function.name) for function in spec.functions] == [
        ("def", "", "helper"), ("func", "Client", "more")]
    assert spec.action("Client", "Send").line == line("  atomic fair action Send:")
    assert spec.action("", "Send") is None and spec.action("Client", "Tick") is None
    assert spec.symmetric and not read("role Client:\n").symmetric


def test_choices_are_of_their_own_block(spec):
    assert {(action.role, action.name): action.choices for action in spec.actions if action.choices} == {
        ("Client", "Send"): ("k", "other")}
    assert spec.functions[1].choices == ("in_func",)
    assert spec.action("Client", "Init").choices == ()  # a field's: no variable is bound


def test_blocks_end_where_the_indentation_does(spec):
    send = spec.action("Client", "Send")
    assert send.text.startswith("atomic fair action Send:") or send.text.startswith("  atomic fair action Send:")
    assert "# a comment at the margin" in send.text and send.text.endswith("self.b = k")
    low = spec.assertion("Low")
    assert low.text == "transition assertion Low(before, after):\n  return True"
    assert (low.line, low.until) == (line("transition assertion Low(before, after):"), line("exists assertion Some:"))
    ends = spec.assertion("Ends")
    assert "# behind it" not in ends.text and ends.until == low.line
    assert spec.assertion("Some").until == ODD.count("\n") + 2


def test_assertions_and_their_words(spec):
    assert [(found.name, found.modifiers, found.eventually, found.doc) for found in spec.assertions] == [
        ("Ends", ("always", "eventually"), True, ("It never ends.",)), ("Low", ("transition",), False, ("behind it",)),
        ("Some", ("exists",), False, ())]
    assert spec.assertion("End") is None
    assert spec.action("Client", "Send").doc == ("Two lines", "of words.")
    assert spec.action("Client", "Strong").doc == ()  # a heading


def test_variables_that_an_init_assigns(spec):
    assert spec.action("", "Init").assigned == ("clients", "state", "atomic_action")
    assert spec.action("Client", "Init").assigned == ("self.a", "self.b")


def test_a_file_that_is_not_whole():
    assert read("").blocks == read("").constants == ()
    assert [action.name for action in read("role W:\n  atomic action A\n").actions] == ["A"]
    assert read("always assertion").assertions == ()
