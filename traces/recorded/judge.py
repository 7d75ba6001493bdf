"""Safety: a step of another program's log is refused only by a guard or a property of a model, and only if that says no.

A mapping says which action of which abstract model a request is, and what its client knows. The model's own action is then
tried, on the few facts that it depends on. If it leads nowhere, the request is refused; if it leads to a state in which a
property fails, too. The model is not asked which of its guards refused until a search has ended.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from highwater.model import guards
from highwater.traces.recorded.orders import Refusal

Why = Callable[[], str]
ME = 0  # each client is judged by itself


def take(model: ModuleType, c: Any, action: str, s: Any, w: Any, why: Why, *choice: Any, shows: str,
         leads: Callable[[Any], bool] | None = None) -> Refusal | None:
    """Return why a client may not take this action, as a Refusal that names the guard, or the property that fails afterwards;
    None if it may. The function `model.CLIENT[action]` gets the constants, process 0, the shared state `s`, the local state `w`
    and each `choice`; only the first step that it yields counts, so give it a state in which that is the one you mean. `shows`
    is the property in `model.ALWAYS`, of the shared state, for which the given part of the state is enough. `leads` gets the
    shared state afterwards, and says whether the request had the action's effect. `why` describes the request."""
    function = model.CLIENT[action]
    step = next(iter(function(c, ME, s, w, *choice)), None)
    if step is None:
        return refused(model, function, (c, ME, s, w, *choice), why, False)
    if leads and not leads(step[1]):
        return no_action(f"{why()}: {action} leads elsewhere")
    holds = model.ALWAYS[shows][1]
    if holds(c, step[1]):
        return None
    return Refusal(shows, why(), True, explain=lambda of: of._replace(
        needs=as_text(guards.refusal(holds, c, step[1])), explain=None))


def send(model: ModuleType, c: Any, w: Any, why: Why, *request: Any, harm: bool = False) -> Refusal | None:
    """Return why a client of the model may not send this request: no state of the store matters to that."""
    if model.may_send(c, ME, w, *request):
        return None
    return refused(model, model.may_send, (c, ME, w, *request), why, harm)


def no_action(why: str) -> Refusal:
    """The request is no action of any model: its content says nothing to the mapping, or is not what the action writes."""
    return Refusal("Form", why, True)


def refused(model: ModuleType, function: Callable, arguments: tuple, why: Why, harm: bool) -> Refusal:
    return Refusal("", why(), harm, explain=lambda of: explained(model, function, arguments, of))


def explained(model: ModuleType, function: Callable, arguments: tuple, refusal: Refusal) -> Refusal:
    """Name the innermost guard that is false, as the model's table calls it."""
    named = {of.__name__: (name, harm) for name, (of, harm) in getattr(model, "GUARDS", {}).items()}
    found: guards.Refusal | None = guards.refusal(function, *arguments)
    innermost, (guard, harm) = found, (function.__name__, False)
    while found:
        if found.of in named:
            innermost, (guard, harm) = found, named[found.of]
        found = found.needs
    return refusal._replace(guard=guard, harm=harm or refusal.harm, needs=as_text(innermost), explain=None)


def as_text(found: guards.Refusal) -> str:
    return f"{found.of or 'the model'} needs {found}"
