"""Find a model by name and make an instance of it from --set options. Bad input is refused in one line."""

import ast
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from traceback import extract_tb, walk_tb
from types import ModuleType
from typing import Annotated, Any

import typer

from highwater import project
from highwater.cli.console import STEM, refuse
from highwater.dst.scenarios import default
from highwater.interrupt import is_by_signal
from highwater.messages import meant
from highwater.model.core import Model, Process, State, Step, malformed_property, without_client
from highwater.model.explore.reads import NotPlain
from highwater.outside import quoted
from highwater.project import raised, type_and_message
from highwater.traces.recorded.machine import Unfit

Name = Annotated[str, typer.Argument(
    default_factory=default, show_default=f"that of --project, or {STEM}",
    help="a protocol, or any Python module with a NamedTuple Constants and a function model(constants)")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a constant of the model; may be repeated")]


def protocols() -> list[str]:
    """Return the stems of the protocols that have a model."""
    return list(project.stems("model"))


def module_of(name: str = STEM) -> ModuleType:
    project.leave_for(name)
    if project.has("model", name) or project.is_users(name):
        return checked(project.load("model", name))
    sys.path.insert(0, "")  # so that a module in the working folder can be imported
    none = (f"there is no model {name!r}{meant(name, protocols())}; choose one of {', '.join(protocols())}, or "
            "a Python module that has Constants and model, such as highwater.gate.boundary_peer")
    if not all(part.isidentifier() for part in name.split(".")):
        refuse(none)
    try:
        module = import_module(name)
    except BaseException as error:
        if is_by_signal(error):
            raise
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            refuse(none)
        refuse(f"the module {name} cannot be imported: {raised(error)}")
    return checked(module)


def checked(module: ModuleType) -> ModuleType:
    """Return the module. Refuses one without Constants and model."""
    name = module.__name__
    for needed in ("Constants", "model"):
        if not hasattr(module, needed):
            refuse(f"the module {name} has no {needed}; a model has a NamedTuple Constants and a function model(constants)")
    if not isinstance(module.Constants, type) or not hasattr(module.Constants, "_field_defaults") or not callable(module.model):
        refuse(f"the module {name}: a model has a NamedTuple Constants and a function model(constants)")
    if lacking := [field for field in module.Constants._fields if field not in module.Constants._field_defaults]:
        refuse(f"the module {name}: Constants.{lacking[0]} has no default")
    if not isinstance(limits := getattr(module, "LIMITS", {}), Mapping):
        refuse(f"the module {name}: LIMITS is {limits!r}; write a dictionary, name of a constant -> its values")
    return module


@contextmanager
def of_user(module: ModuleType) -> Generator[None, None, None]:
    """Refuse, in one line, errors of the user's model: exceptions of its code, states of a wrong type, actions and properties
    of a wrong form, and too large instances. Any other exception is an error of this project, and keeps its traceback."""
    try:
        yield
    except BaseException as error:
        if is_by_signal(error):
            raise
        if isinstance(error, TypeError) and str(error).startswith("unhashable type"):
            refuse(f"the module {module.__name__}: a state holds a mutable value{mutable_part(error)} ({error}); make states "
                   "and choices of ints, strings, tuples and frozensets")
        file, frames = getattr(module, "__file__", None), extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        if lines:  # of the user's function, or of one of ours that it calls with a wrong argument
            refuse(f"the module {module.__name__}: {type_and_message(error)} ({file}:{lines[-1]})")
        if isinstance(error, (NotPlain, OverflowError, Unfit)):
            refuse(str(error))
        if isinstance(error, (TypeError, ValueError)) and (form := wrong_form(error)):
            refuse(f"the module {module.__name__}: {form}")
        raise


def mutable_part(error: BaseException) -> str:
    """Return which field of a state has a mutable value, and which action made it, as an engine's variables say; else ""."""
    field, action = "", ""
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        names = frame.f_locals
        field = field or next(filter(None, map(mutable_field, names.values())), "")
        if not action and isinstance(names.get("action"), str):
            process = names.get("process") or names["self"].model.processes[names["p"]]
            action = f"{process.role}.{names['action']}".lstrip(".")
        steps = [Step(names["label"], names["successor"])] if {"label", "successor"} <= names.keys() else names.get("trace")
        for step in steps if isinstance(steps, list) and not action else ():
            action = action or ".".join(filter(None, step.label[:2])) * bool(mutable_field(step.state))
    return f": {field}" * bool(field) + f", after {action}" * bool(action)


def mutable_field(value: Any) -> str:
    """Return the first field of a state with a value that has no hash: "Shared.files = [1]"; "" if there is none."""
    if isinstance(value, State):
        return next(filter(None, map(mutable_field, (value.shared, *value.locals))), "")
    if not isinstance(value, tuple) or type(value).__module__.startswith(("highwater.model.core", "highwater.model.explore")):
        return ""
    for name, part in getattr(value, "_asdict", dict)().items():
        try:
            hash(part)
        except TypeError:
            return f"{type(value).__name__}.{name} = {part!r}"
    return ""


def wrong_form(error: BaseException) -> str:
    """Return which action or property has a wrong form, if an engine that took it apart or called it raised this; else ""."""
    frames = list(walk_tb(error.__traceback__))
    names = frames[-1][0].f_locals if frames else {}
    if callable(names.get("holds")):
        return (f"the property {names['holds'].__name__} cannot be called: {error}; with None it is f(c, shared), with a role "
                "f(c, shared, local)")
    if isinstance(names.get("process"), Process) and isinstance(names.get("action"), str):
        action = f"{names['process'].role}.{names['action']}".lstrip(".")
        return f"the action {action} has a wrong form: {error}; an action is a generator, `yield choices, shared', local'`"
    return ""


def constants_of(settings: list[str] | None, protocol: ModuleType | None = None) -> Any:
    """Return the constants of an instance. Refuses an unknown name, and a value of a wrong type or range."""
    defaults, values = (protocol or module_of()).Constants(), {}
    limits = getattr(protocol or module_of(), "LIMITS", {})
    for setting in settings or ():
        name, _, text = setting.partition("=")
        if name not in defaults._fields:
            refuse(f"there is no constant {name!r}{meant(name, defaults._fields)}; choose one of {', '.join(defaults._fields)}")
        default = getattr(defaults, name)
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: it is deeply nested
            values[name] = text
        if type(values[name]) is not type(default):
            refuse(f"{quoted(setting)}: the value has a wrong type; the default of {name} is {default!r}, give a value of its "
                   "type")
        if name in limits and values[name] not in limits[name]:
            told = f"from {limits[name][0]} to {limits[name][-1]}" if isinstance(limits[name], range) else \
                ", ".join(one or '""' for one in limits[name][:-1]) + f" or {limits[name][-1]}"
            refuse(f"{quoted(setting)}: {name} must be {told}")
    return defaults._replace(**values)


def instance(name: str, settings: list[str] | None) -> Model:
    protocol = module_of(name)
    return made(protocol, constants_of(settings, protocol))


def made(protocol: ModuleType, constants: Any) -> Model:
    """Return the instance of a module's model. Refuses a function `model` that fails or does not return a valid Model."""
    try:
        model = protocol.model(constants)
    except BaseException as error:
        if is_by_signal(error):
            raise
        refuse(f"the module {protocol.__name__}: model({constants}) raises {raised(error)}")
    if not isinstance(model, Model):
        refuse(f"the module {protocol.__name__}: model({constants}) returns {model!r}, not a highwater.model.core.Model")
    if not model.processes:
        refuse(f"the module {protocol.__name__}: model({constants}) has no process")
    if malformed := malformed_property(model):
        refuse(f"the module {protocol.__name__}: {malformed}")
    if strange := unknown_role(model, protocol):
        refuse(f"the module {protocol.__name__}: {strange}")
    for name in model.always.keys() & model.sometimes.keys():
        refuse(f"the module {protocol.__name__}: {name} is both an always and a sometimes property")
    return model


def unknown_role(model: Model, protocol: ModuleType) -> str:
    """Return which property has a role that no client has, with these constants or others; "" if there is none."""
    missing = without_client(model)
    if not missing:
        return ""
    roles = {process.role for each in others(protocol, model.constants) for process in each.processes}
    return next((f"the property {name} is of the role {role!r}{meant(role, roles)}, which no client has: there are "
                 f"{', '.join(sorted(filter(None, roles)))}" for name, role in missing.items() if role not in roles), "")


def others(protocol: ModuleType, constants: Any) -> Iterator[Model]:
    """Yield the models of instances that may have clients of other roles: each constant takes other values, and so do all that
    are 0 or None, from these constants and from the defaults. Constants that the model refuses are left out."""
    if constants != (defaults := type(constants)()):
        yield from others(protocol, defaults)
    values = constants._asdict()
    small = {name: 1 for name, value in values.items() if value in (0, None) and value is not False}
    choices = [*((name, not value) for name, value in values.items() if isinstance(value, bool)), *small.items(),
               *((name, text) for name, texts in getattr(protocol, "LIMITS", {}).items() for text in texts
                 if isinstance(text, str))]
    for changed in ({}, small, *({**small, name: value} for name, value in choices), *(dict([choice]) for choice in choices)):
        with suppress(Exception):
            yield protocol.model(constants._replace(**changed))
