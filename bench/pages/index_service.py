"""Renders the tables of docs/operating/metadata-index.md from the codes and the limits of the index's service."""

from highwater.impl.index.config import Config
from highwater.impl.index.service.codes import CODES
from highwater.impl.index.service.limits import Limits
from highwater.model.guards import notes


def codes() -> str:
    """Render a row for each error of a call: its code, what it means, and what a client does."""
    lines = ["| code | error | means | then |", "|---|---|---|---|"]
    for kind, code, then in CODES:
        means = (kind.__doc__ or "").partition(".")[0].replace("\n", " ")
        lines.append(f"| `{code}` | `{kind.__name__}` | {' '.join(means.split())} | {then} |")
    return "\n".join(lines) + "\n"


def limits() -> str:
    """Render a row for each limit."""
    return table(Limits())


def settings() -> str:
    """Render a row for each number of the index's configuration."""
    return table(Config())


def table(of: Limits | Config) -> str:
    says = notes(type(of))
    lines = ["| name | default | is |", "|---|---|---|"]
    lines += [f"| `{name}` | {value:,} | {says[name]} |" for name, value in of._asdict().items() if isinstance(value, int)]
    return "\n".join(lines) + "\n"
