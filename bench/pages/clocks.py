"""Renders the table of docs/guide/time-in-models.md: what holds of a lease, by what is assumed of clocks and of requests."""

import tomllib

from bench.pages.protocol import ROOT

TABLE = ROOT / "examples" / "lease" / "lease" / "spec.toml"
IDS = ("lease_plain", "lease_late", "lease_no_token", "lease_blind_append", "lease_perfect_clocks", "lease_perfect_clocks_late")


def clocks() -> str:
    """Render a row for each of these instances of the lease's model."""
    runs = {run["id"]: run for run in tomllib.loads(TABLE.read_text())["run"]}
    lines = ["| row | clocks | token | condition | late requests | states | verdict |", "|---" * 7 + "|"]
    for name in IDS:
        run, of = runs[name], runs[name].get("constants", {})
        on = ["on" if of.get(safeguard, True) else "off" for safeguard in ("FENCED", "CONDITIONAL")]
        verdict = f"`{run['violates']}` fails" if run["expect"] == "FAILED" else "every property holds"
        lines.append(f"| `{name}` | {of.get('CLOCKS', 'any')} | {' | '.join(on)} | {of.get('MAX_PENDING', 0)} | "
                     f"{run['states']:,} | {verdict} |")
    return "\n".join(lines) + "\n"
