"""Lists all generated parts: `python -m bench.pages` writes them, `--check` names the stale ones.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->` in a page. An image and a reference page are whole files.
The part `min_age` takes minutes, so `python -m bench.pages min_age` writes it, and a run without names leaves it out.

A protocol needs no entry here. Its reference page and its diagrams are found by its spec. What is drawn or generated for one
protocol alone is said in bench/pages/shown/STEM.toml (bench/pages/protocol.py).
"""

import re
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from importlib import import_module

from bench import architecture, lines
from bench.pages import (
    branch,
    clocks,
    coverage,
    index_service,
    mutation,
    policies,
    profiles,
    protocol,
    queries,
    readme,
    refinements,
    sst,
    strangers,
    witnesses,
)
from bench.pages.protocol import ROOT, instances_of, page_data, stems
from bench.pages.reference import reference
from highwater.cli.dst import zoo
from highwater.cli.trace import damaged
from tests.support.slatedb import decided


def min_age() -> str:
    from bench.min_age import measure, plot, table

    counts = measure()
    plot(counts)
    return table(counts)


def of_protocol(stem: str) -> dict[str, tuple[str, Callable[[], str]]]:
    """Return the reference page of a protocol, its diagrams, and the parts that its .toml names."""
    of, data = instances_of(stem), page_data(stem)
    images = {role.lower(): partial(protocol.diagram, of, role) for role in protocol.drawn(of)}
    if "branch" in data:
        images["branch"] = partial(branch.svg, branch.branched(stem))
    return {
        f"{stem}.reference": (f"docs/protocols/reference/{stem}.md", partial(reference, of)),
        **{f"{stem}.{name}.svg": (f"docs/images/{stem}.{name}.svg", render) for name, render in images.items()},
        **{f"{stem}.{module.rpartition('.')[2]}": (f"docs/protocols/{stem}.md", partial(call, module))
           for module in data.get("parts", ())}}


def call(module: str) -> str:
    """Render a part with the function that is named as its module."""
    return getattr(import_module(module), module.rpartition(".")[2])()


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "demo": ("README.md", readme.demo),
    "protocols": ("docs/protocols.md", readme.protocols),
    "gates": ("docs/gate.md", readme.gates),
    "exit_codes": ("docs/guide/commands.md", readme.exit_codes),
    "failure": ("docs/simulation/explain.md", readme.failure),
    "database": ("docs/operating/database.md", readme.database),
    "cost": ("docs/operating/cost.md", readme.cost),
    "min_age": ("docs/operating/boundary-files.md", min_age),
    "decided": ("docs/operating/database.md", decided.table),
    "profiles": ("docs/operating/store-profiles.md", profiles.profiles),
    "differences": ("docs/operating/store-profiles.md", profiles.differences),
    "index_codes": ("docs/operating/metadata-index.md", index_service.codes),
    "index_limits": ("docs/operating/metadata-index.md", index_service.limits),
    "index_settings": ("docs/operating/metadata-index.md", index_service.settings),
    "columns": ("docs/simulation/campaigns.md", queries.columns),
    "views": ("docs/simulation/campaign-queries.md", queries.views),
    "queries": ("docs/simulation/campaign-queries.md", queries.queries),
    "coverage": ("docs/simulation/coverage.md", coverage.coverage),
    "mutation": ("docs/simulation/mutation.md", mutation.mutation),
    "strangers": ("docs/strangers-verdicts.md", strangers.strangers),
    "stores": ("docs/operating/store-probe.md", strangers.stores),
    "catalogue": ("docs/simulation/zoo.md", zoo.catalogue),
    "oracles": ("docs/simulation/zoo.md", zoo.oracles),
    "clocks": ("docs/guide/time-in-models.md", clocks.clocks),
    "lines": ("docs/what-a-protocol-costs.md", lines.table),
    "trace_damage": ("docs/checking/trace-damage.md", damaged.page),
    "trace_damage_by_protocol": ("docs/checking/trace-damage.md", damaged.by_protocol),
    "raft.witnesses": ("docs/protocols/raft.md", witnesses.witnesses),
    "refinements": ("docs/refinement.md", refinements.refinements),
    "policies": ("docs/composition.md", policies.policies),
    "sst.svg": ("docs/images/sst.svg", sst.svg),
    "picture": ("ARCHITECTURE.md", architecture.picture),
    "rooms": ("ARCHITECTURE.md", architecture.rooms),
    **{name: part for stem in stems() for name, part in of_protocol(stem).items()},
}


def with_part(text: str, name: str, content: str) -> str:
    pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
    replaced, count = re.subn(pattern, lambda match: match[1] + content + match[2], text, flags=re.S)
    if count != 1:
        raise ValueError(f"the page must have one part {name!r}, and has {count}")
    return replaced


def is_whole_file(name: str) -> bool:
    return name.endswith((".svg", ".reference"))


def main(arguments: list[str]) -> int:
    parser = ArgumentParser(prog="python -m bench.pages", description="Write the generated parts of the docs anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the parts; by default all but min_age, which takes minutes")
    parser.add_argument("--check", action="store_true", help="write nothing, and name the parts that are stale")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    check, names = asked.check, asked.names or [name for name in PARTS if name != "min_age"]
    stale = []
    for name in names:
        path, render = ROOT / PARTS[name][0], PARTS[name][1]
        text = path.read_text() if path.exists() else ""
        current = render() if is_whole_file(name) else with_part(text, name.rpartition(".")[2], render())
        if check and current != text:
            stale.append(name)
        elif not check:
            path.write_text(current)
    if stale:
        print(f"stale: {', '.join(stale)}; run `make docs`")
    return int(bool(stale))
