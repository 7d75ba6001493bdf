"""Counts the lines of each protocol: `python -m bench.lines` prints the table of docs/what-a-protocol-costs.md.

A line counts unless it is blank or holds a comment alone. Docstrings count. A file belongs to a protocol if its name begins
with the protocol's stem (`test_`, and a word for the kind of test, may stand before it); what the protocols of a layer share
is counted once, in the last row.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from highwater.specs.runs import rows

ROOT = Path(__file__).resolve().parent.parent
LAYERS = {  # layer -> (files of the protocol STEM, files that its protocols share)
    "spec": (("specs/NAME.fizz", "specs/NAME.toml"), ()),
    "model": (("model/protocols/STEM*.py",), ("model/parts.py",)),
    "proof": (("model/proofs/STEM*.py", "model/proofs/refinements/STEM*.py"), ("model/proofs/engine/parts.py",)),
    "impl": (("impl/protocols/STEM*.py",), ()),
    "scenario": (("dst/scenarios/STEM*.py", "dst/scenarios/STEM*/*.py"), ("dst/scenario.py", "dst/actors.py")),
    "mutants": (("dst/mutants/STEM*.py", "dst/mutants/STEM*/*.py"), ()),
    "mapping": (("traces/protocols/STEM*.py",), ("traces/trace.py",)),
    "tests": (("tests/**/test_STEM*.py", "tests/**/test_*_STEM*.py"), ()),
    "page": (("docs/protocols/STEM.md",), ()),
}
SHARED = "shared"


def lines_of(path: Path) -> int:
    """Count the lines of a file that are neither blank nor a comment. In Markdown `#` begins a heading, which counts."""
    comment = () if path.suffix == ".md" else ("#",)
    return sum(1 for line in path.read_text().splitlines() if line.strip() and not line.strip().startswith(comment))


def files(patterns: tuple[str, ...], stem: str = "", name: str = "") -> set[Path]:
    return {path for pattern in patterns for path in ROOT.glob(pattern.replace("STEM", stem).replace("NAME", name))}


def measured() -> dict[str, dict[str, int]]:
    """Count the lines now: protocol -> layer -> lines."""
    names = {row.stem: row.path.stem for row in rows()}
    found = {stem: {layer: sum(map(lines_of, files(own, stem, name))) for layer, (own, _) in LAYERS.items()}
             for stem, name in sorted(names.items())}
    return found | {SHARED: {layer: sum(map(lines_of, files(shared))) for layer, (_, shared) in LAYERS.items()}}


def cells(before: dict[str, int], now: dict[str, int]) -> Iterator[str]:
    """Yield `before → now` for each layer, then for all layers; one number if both are equal."""
    for layer in (*LAYERS, ""):
        was, is_now = ((of.get(layer, 0) if layer else sum(of.values())) for of in (before, now))
        yield f"{was:,}" if was == is_now else f"{was:,} → {is_now:,}"


def table() -> str:
    """Render a row for each protocol and a column for each layer."""
    now = measured()
    total = [{layer: sum(of[layer] for of in those.values()) for layer in LAYERS} for those in (BEFORE, now)]
    lines = [f"| protocol | {' | '.join(LAYERS)} | all |", f"|---{'|---:' * (len(LAYERS) + 1)}|"]
    for stem, of in now.items():
        lines.append(f"| {stem} | {' | '.join(cells(BEFORE.get(stem, {}), of))} |")
    return "\n".join([*lines, f"| all | {' | '.join(cells(*total))} |"]) + "\n"


# Before the common parts of models, proofs and mappings were moved to one place; one number a layer.
FIXED = {
    "baseline": (207, 174, 0, 114, 99, 44, 65, 196, 33),
    "log_gc": (544, 406, 485, 156, 194, 172, 151, 414, 37),
    "manifest_compactions": (474, 376, 0, 145, 213, 167, 191, 298, 49),
    "manifest_epochs": (788, 397, 516, 275, 233, 139, 173, 684, 98),
    "manifest_migration": (176, 144, 0, 38, 202, 101, 181, 106, 48),
    "sequenced_metadata_boundary": (769, 489, 593, 207, 235, 287, 403, 459, 744),
    "sequenced_write": (436, 266, 334, 152, 152, 150, 156, 336, 43),
    "simple_conditional": (349, 251, 0, 91, 118, 128, 100, 278, 38),
    "store_primitives": (372, 298, 0, 0, 127, 69, 95, 71, 38),
    "wal_fencing": (631, 410, 579, 254, 163, 180, 170, 601, 63),
    "shared": (0, 0, 0, 0, 83, 0, 188, 0, 0),
}
BEFORE = {stem: dict(zip(LAYERS, of)) for stem, of in FIXED.items()}


if __name__ == "__main__":
    sys.stdout.write(table())
