"""Find a model by name and make an instance of it from --set options. Bad input is refused in one line."""

import ast
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from traceback import extract_tb
from types import ModuleType
from typing import Annotated, Any

import typer

from highwater import project
from highwater.cli.console import STEM, refuse
from highwater.dst.scenarios import default
from highwater.model.core import Model, Process, malformed_property
from highwater.model.explore.reads import NotPlain
from highwater.project import raised
from highwater.traces.recorded.machine import Unfit

Name = Annotated[str, typer.Argument(
    default_factory=default, show_default=f"that of --project, or {STEM}",
    help="a protocol, or any Python module with a NamedTuple Constants and a function model(constants)")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a constant of the model; may be repeated")]


def protocols() -> list[str]:
    """Return the stems of the protocols that have a model."""
    return list(project.stems("model"))


def module_of(name: str = STEM) -> ModuleType:
    if project.has("model", name) or project.is_users(name):
        return checked(project.load("model", name))
    sys.path.insert(0, "")  # so that a module in the working folder can be imported
    none = (f"there is no model {name!r}; choose one of {', '.join(protocols())}, or a Python module that has Constants and "
            "model, such as highwater.gate.boundary_peer")
    if not all(part.isidentifier() for part in name.split(".")):
        refuse(none)
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
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
    return module


@contextmanager
def of_user(module: ModuleType) -> Generator[None, None, None]:
    """Refuse, in one line, errors of the user's model: exceptions of its code, states of a wrong type, actions and properties
    of a wrong form, and too large instances. Any other exception is an error of this project, and keeps its traceback."""
    try:
        yield
    except Exception as error:
        if isinstance(error, TypeError) and str(error).startswith("unhashable type"):
            refuse(f"the module {module.__name__}: a state holds a mutable value ({error}); make states and choices of ints, "
                   "strings, tuples and frozensets")
        file, frames = getattr(module, "__file__", None), extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        if lines:  # of the user's function, or of one of ours that it calls with a wrong argument
            refuse(f"the module {module.__name__}: {type(error).__name__}: {' '.join(str(error).split())} "
                   f"({file}:{lines[-1]})")
        if isinstance(error, (NotPlain, OverflowError, Unfit)):
            refuse(str(error))
        if isinstance(error, (TypeError, ValueError)) and (form := wrong_form(error)):
            refuse(f"the module {module.__name__}: {form}")
        raise


def wrong_form(error: Exception) -> str:
    """Return which action or property has a wrong form, if an engine that took it apart or called it raised this; else ""."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    names = frame.tb_frame.f_locals if frame else {}
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
            refuse(f"there is no constant {name!r}; choose one of {', '.join(defaults._fields)}")
        default = getattr(defaults, name)
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
        if type(values[name]) is not type(default):
            refuse(f"{setting!r}: the value has a wrong type; the default of {name} is {default!r}, give a value of its type")
        if name in limits and values[name] not in limits[name]:
            told = f"from {limits[name][0]} to {limits[name][-1]}" if isinstance(limits[name], range) else \
                ", ".join(one or '""' for one in limits[name][:-1]) + f" or {limits[name][-1]}"
            refuse(f"{setting!r}: {name} must be {told}")
    return defaults._replace(**values)


def instance(name: str, settings: list[str] | None) -> Model:
    protocol = module_of(name)
    return made(protocol, constants_of(settings, protocol))


def made(protocol: ModuleType, constants: Any) -> Model:
    """Return the instance of a module's model. Refuses a function `model` that fails or does not return a valid Model."""
    try:
        model = protocol.model(constants)
    except Exception as error:
        refuse(f"the module {protocol.__name__}: model({constants}) raises {raised(error)}")
    if not isinstance(model, Model):
        refuse(f"the module {protocol.__name__}: model({constants}) returns {model!r}, not a highwater.model.core.Model")
    if not model.processes:
        refuse(f"the module {protocol.__name__}: model({constants}) has no process")
    if malformed := malformed_property(model):
        refuse(f"the module {protocol.__name__}: {malformed}")
    for name in model.always.keys() & model.sometimes.keys():
        refuse(f"the module {protocol.__name__}: {name} is both an always and a sometimes property")
    return model
