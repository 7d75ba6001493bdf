"""Print a counterexample with Rich's markup: the actions, the guards that they passed, and the changes."""

from typing import Any

from rich.markup import escape

from highwater.model.core import Model, Step
from highwater.model.guards import doc, guards_of
from highwater.model.liveness import Lasso


def told_lasso(model: Model, lasso: Lasso, brief: bool = False) -> str:
    """Format a lasso: the steps to the cycle, the cycle, and how each fair action is treated on it."""
    whose = f" for {escape(lasso.process)}" if lasso.process else ""
    lines = [f"[bold red]{escape(lasso.violated)} fails{whose}[/]: {escape(doc_of(model, lasso.violated))}", "",
             *told_steps(model, lasso.stem, brief=brief)]
    if lasso.cycle:
        lines += ["[bold]and then forever[/]", *told_steps(model, lasso.stem + lasso.cycle, len(lasso.stem), brief)]
    else:
        lines.append("[bold]and then nothing more happens[/], because no fair action is enabled")
    told = {"taken": "taken in step {}", "disabled": "not enabled after step {}", "never enabled": "never enabled"}
    lines += [escape(f"    fair: {w.process}.{w.action}".replace(": .", ": ")) + " "
              + told[w.how].format(w.at + len(lasso.stem) - 1) for w in lasso.fair if w.how != "never enabled"]
    return "\n".join(lines)


def doc_of(model: Model, name: str) -> str:
    return doc((model.always.get(name) or model.eventually[name])[1])


def told(model: Model, violated: str, trace: tuple[Step, ...], brief: bool = False) -> str:
    """Format a counterexample step by step, as `told_steps` does."""
    text = doc_of(model, violated)
    return "\n".join([f"[bold red]{escape(violated)} fails[/]{': ' * bool(text)}{escape(text)}", "",
                      *told_steps(model, trace, brief=brief)])


def told_steps(model: Model, trace: tuple[Step, ...], first: int = 0, brief: bool = False) -> list[str]:
    """Format the steps from number `first` on: the action, the guards that it passed, the changes. `brief`: only the action."""
    lines: list[str] = []
    actions = {(p.name, name): action for p in model.processes for name, action in p.actions.items()}
    for number, step in enumerate(trace[first:], first):
        process, action, _ = step.label
        lines.append(f"{number:3} [bold]{spelt(step)}[/]")
        if brief:
            continue
        if guards := guards_of(actions[process, action]) if (process, action) in actions else ():
            lines.append(f"      [dim]{escape(', '.join(guards))}[/]")
        lines += [f"      {escape(change)}" for change in (changes(model, trace[number - 1], step) if number else ())]
    return lines


def spelt(step: Step) -> str:
    process, action, choices = step.label
    return escape(f"{process + '.' if process else ''}{action}{choices or ''}")


def changes(model: Model, before: Step, after: Step) -> list[str]:
    parts = [("", before.state.shared, after.state.shared)]
    parts += [(f"{p.name} ", old, new) for p, old, new in zip(model.processes, before.state.locals, after.state.locals)]
    return [f"{name}{field}: {shown(x)} → {shown(y)}" for name, old, new in parts if old != new
            for field, x, y in (zip(old._fields, old, new) if hasattr(old, "_fields") else [("", old, new)]) if x != y]


def shown(value: Any) -> str:
    """Format a value, with sets sorted and without "frozenset"."""
    if hasattr(value, "_asdict"):
        return "{" + ", ".join(f"{k} {shown(v)}" for k, v in value._asdict().items()) + "}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(shown, value), key=lambda text: (len(text), text))) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(shown(v) for v in value) + ")"
    return repr(value)
