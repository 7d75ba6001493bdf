"""Which models there are, and an instance of one from what a user wrote."""

import ast
import sys
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer

from cli.console import STEM, refuse
from model.core import Model
from specs.manifest import rows

Name = Annotated[str, typer.Argument(
    help="a protocol of this project, or any Python module with a NamedTuple Constants and a function model(constants)")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a constant of the model; may be repeated")]


def protocols() -> list[str]:
    """Those that have a spec."""
    return list(dict.fromkeys(row.stem for row in rows()))


def module_of(name: str = STEM) -> ModuleType:
    if name in protocols():
        return import_module(f"model.{name}")
    sys.path.insert(0, "")  # a model of the user's own, in the folder where he is
    try:
        module = import_module(name)
    except (ImportError, ValueError, TypeError) as error:
        refuse(f"there is no model {name!r} ({error}); there are {', '.join(protocols())}, and any Python module that has "
               f"Constants and model, as bench.boundary_peer")
    for needed in ("Constants", "model"):
        if not hasattr(module, needed):
            refuse(f"the module {name} has no {needed}; a model has a NamedTuple Constants and a function model(constants)")
    return module


def constants_of(settings: list[str] | None, protocol: ModuleType | None = None) -> Any:
    """The constants of an instance. Refuses a name that the model has not, and a value of another type or out of range."""
    defaults, values = (protocol or module_of()).Constants(), {}
    limits = getattr(protocol or module_of(), "LIMITS", {})
    for setting in settings or ():
        name, _, text = setting.partition("=")
        if name not in defaults._fields:
            refuse(f"there is no constant {name!r}; there are {', '.join(defaults._fields)}")
        default = getattr(defaults, name)
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
        if type(values[name]) is not type(default):
            refuse(f"{setting!r}: {name} is {default!r} unless set; give one like it")
        if name in limits and values[name] not in limits[name]:
            told = f"from {limits[name][0]} to {limits[name][-1]}" if isinstance(limits[name], range) else \
                ", ".join(limits[name][:-1]) + f" or {limits[name][-1]}"
            refuse(f"{setting!r}: {name} is {told}")
    return defaults._replace(**values)


def instance(name: str, settings: list[str] | None) -> Model:
    protocol = module_of(name)
    return protocol.model(constants_of(settings, protocol))
