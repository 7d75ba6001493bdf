"""Renders the tables of docs/operating/store-profiles.md from the data that the simulated store runs on."""

from highwater.dst.world.profiles import PROFILES, S3, Profile
from highwater.model.guards import notes

HIDDEN = ("name", "unverified")
STATUSES = ("create", "update")  # a 200 in these fields is emphasized


def profiles() -> str:
    """Render a row for each property and a column for each store. A question mark follows what is unverified."""
    says = notes(Profile)
    lines = [f"| | | {' | '.join(PROFILES)} |", "|---|---|" + "---|" * len(PROFILES)]
    for field in Profile._fields:
        if field not in HIDDEN:
            lines.append(f"| `{field}` | {says[field]} | {' | '.join(cell(of, field) for of in PROFILES.values())} |")
    return "\n".join(lines) + "\n"


def cell(profile: Profile, field: str) -> str:
    value = getattr(profile, field)
    words = "proceeds" if field.endswith("contended") and not value else {True: "yes", False: "no"}[value] if isinstance(
        value, bool) else "**200**" if field.startswith(STATUSES) and value == 200 else str(value)
    return words + "?" * (field in profile.unverified)


def differences() -> str:
    """Render a row for each store: its differences from S3."""
    lines = ["| | differs from S3 | unverified |", "|---|---|---|"]
    for name, profile in PROFILES.items():
        unlike = [f"`{field}` {cell(profile, field).rstrip('?')}" for field in Profile._fields
                  if field not in HIDDEN and getattr(profile, field) != getattr(S3, field)]
        lines.append(f"| {name} | {', '.join(unlike)} | {len(profile.unverified)} of {len(Profile._fields) - len(HIDDEN)} |")
    return "\n".join(lines) + "\n"
