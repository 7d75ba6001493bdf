"""Every read of an action or a property is recorded, however it reads, so that engines with caches agree with plain Python.

Each model below once got a wrong verdict from such an engine, or reads in a way that a recorder could miss."""

import copy
from typing import NamedTuple

import pytest

from highwater.model.core import Model, Process
from highwater.model.explore import plain, tabulated, wide
from highwater.model.explore.reads import NotPlain


class S(NamedTuple):
    x: int = 0
    written: bool = False


class L(NamedTuple):
    pc: str = "a"
    n: int = 0
    view: object = None


class Idle(NamedTuple):
    pass


class Busy(NamedTuple):
    n: int = 0


class Other(NamedTuple):
    x: int = 0
    y: int = 0
    z: int = 0


def of(shared, local, actions, always=None, clients=2):
    processes = tuple(Process(f"P#{i}", "P", i, local, actions) for i in range(clients))
    return Model("reads", None, shared, processes, always or {"XIsSmall": (None, lambda c, s: getattr(s, "x", 0) < 3)}, {})


ONE = (1,)


def guarded(guard):
    """Shared x is counted up by one action, and by another where the guard lets it."""
    def up(c, me, s, w):
        if s.x < 2:
            yield (), s._replace(x=s.x + 1), w._replace(n=w.n + 1)

    def other(c, me, s, w):
        if guard(s, w):
            yield (), s._replace(x=s.x + 1), w._replace(pc="b")

    return of(S(), L(), {"Up": up, "Other": other})


def match_class(s, w):
    match w:
        case L(pc="a", n=n):
            return n == 1
    return False


def match_sequence(s, w):
    match s:
        case (x, _):
            return x == 2
    return False


GUARDS = {
    "class-pattern": match_class, "sequence-pattern": match_sequence,
    "isinstance": lambda s, w: isinstance(s, S) and isinstance(w, L) and isinstance(s, tuple) and s.x == 2,
    "class-attribute": lambda s, w: s.__class__ is S and s.x == 2,
    "unpacked": lambda s, w: (lambda x, written: x == 2)(*s), "indexed": lambda s, w: s[0] == 2 and w[-2] == 1,
    "sliced": lambda s, w: s[:1] == (2,), "ordered": lambda s, w: s > S(1) and s >= S(2) and not s <= S(1) and not s < S(2),
    "compared": lambda s, w: s == S(2) and S(2) == s and s != S(1), "a-member": lambda s, w: s in {S(2)} and 2 in s,
    "added": lambda s, w: s + ONE == (2, False, 1) and ONE + s == (1, 2, False) and 2 * s == s * 2 == (2, False, 2, False),
    "sorted": lambda s, w: sorted([s, S(1)])[1] == S(2), "copied": lambda s, w: copy.copy(s).x == 2 == copy.deepcopy(s).x,
    "formatted": lambda s, w: f"{s}" == str(s) == repr(s) == "S(x=2, written=False)",
    "as-dict": lambda s, w: s._asdict()["x"] == 2,
    "replaced": lambda s, w: s._replace(written=True)._replace(x=s.x + 1).x == 3, "counted": lambda s, w: s.count(2) == 1,
    "made": lambda s, w: s._make((s.x, True)).x == 2 and s.__class__(s.x).x == 2, "length": lambda s, w: len(s) == s.x == 2,
    "starred": lambda s, w: max(*s) == 2 and sum(s) == 2, "hashed": lambda s, w: hash(s) == hash(S(2)),
    "defaulted": lambda s, w: getattr(s, "nothing", s.x) == 2 and not hasattr(w, "x"),
}


def same(model):
    one, other = plain.explore(model), tabulated.explore(model)
    assert other == one
    third = wide.explore(model)
    assert (third.violated, third.depth, third.fired) == (one.violated, one.depth, one.fired)
    return one


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_reads_in_this_way(guard):
    found = same(guarded(GUARDS[guard]))
    assert ("P", "Other") in found.fired and found.violated == "XIsSmall"


def test_a_field_whose_name_a_recorder_might_have():
    def write(c, me, s, w):
        if not s.written:
            yield (), s._replace(written=True), w

    def count(c, me, s, w):
        if s.written and s.x < 3:
            yield (), s._replace(x=s.x + 1), w

    assert same(of(S(), L(), {"Write": write, "Count": count})).violated == "XIsSmall"


def test_locals_of_several_types():
    def begin(c, me, s, w):
        if isinstance(w, Idle) and not hasattr(w, "n"):
            yield (), s, Busy(1)

    def work(c, me, s, w):
        if len(w) == 1:
            yield (), s, Other(w.n, s.x, 7)

    def end(c, me, s, w):
        if len(w) == 3 and w[2] == 7:
            yield (), s._replace(x=min(s.x + 1, 3)), "done" if s.x else Idle()

    always = {"NobodyIsDone": ("P", lambda c, s, w: w != "done"), "XIsSmall": (None, lambda c, s: s.x < 2)}
    actions = {"Begin": begin, "Work": lambda c, me, s, w: work(c, me, s, w) if w != "done" else (),
               "End": lambda c, me, s, w: end(c, me, s, w) if w != "done" else ()}
    assert same(of(S(), Idle(), actions, always)).violated == "NobodyIsDone"


def test_shared_parts_of_several_types():
    def become(c, me, s, w):
        if isinstance(s, S) and s.x == 1:
            yield (), Other(s.x), w
        elif isinstance(s, Other) and s.y < 2:
            yield (), s._replace(y=s.y + 1), w
        elif isinstance(s, Other):
            yield (), 5, w

    def up(c, me, s, w):
        if isinstance(s, S) and s.x < 2:
            yield (), s._replace(x=s.x + 1), w._replace(n=1)

    assert same(of(S(), L(), {"Become": become, "Up": up}, {"NeverFive": (None, lambda c, s: s != 5)})).violated == "NeverFive"


def test_a_state_that_was_kept_and_is_put_back():
    def keep(c, me, s, w):
        if w.view is None:
            yield (), s, w._replace(view=s)

    def up(c, me, s, w):
        if s.x < 2:
            yield (), s._replace(x=s.x + 1), w

    def back(c, me, s, w):
        if w.view is not None and w.view != s:
            yield (), w.view, w._replace(n=1)

    def back_at_zero(c, s, w):
        return not (w.n and s.x == 0)

    found = same(of(S(), L(), {"Keep": keep, "Up": up, "Back": back}, {"NeverBack": ("P", back_at_zero)}))
    assert found.violated == "NeverBack"


def test_of_two_properties_the_first_is_told_whosesoever_it_is():
    def up(c, me, s, w):
        yield (), s._replace(x=s.x + 1), w

    mine, ours = ("P", lambda c, s, w: s.x < 2), (None, lambda c, s: s.x < 2)
    assert same(of(S(), L(), {"Up": up}, {"Mine": mine, "Ours": ours})).violated == "Mine"
    assert same(of(S(), L(), {"Up": up}, {"Ours": ours, "Mine": mine})).violated == "Ours"


def test_a_model_in_which_nobody_acts_is_judged():
    always = {"XIsOne": (None, lambda c, s: s.x == 1)}
    assert [engine.explore(of(S(), L(), {}, always, clients=0)).violated for engine in (plain, tabulated)] == ["XIsOne"] * 2


def test_what_can_not_be_noticed_is_refused():
    for guard in (lambda s, w: type(s) is S and s.x == 2, helped):
        with pytest.raises(NotPlain, match=r"P#0.Other uses type.* isinstance"):
            tabulated.explore(guarded(guard))


def helped(s, w):
    return [helper(part) for part in (s,)] == [True]


def helper(part):
    return type(part) is S


def test_an_answer_that_differs_is_refused():
    with pytest.raises(NotPlain, match=r"P#0.Other does not do the same .* isinstance"):
        tabulated.explore(guarded(lambda s, w: s.x == 0 and not hasattr(s, "__dict__")))


def test_an_unknown_field():
    with pytest.raises(ValueError, match="no field y"):
        tabulated.explore(guarded(lambda s, w: s._replace(y=1)))
