"""Writes docs/api.md, the public API on one page, from the sources and their docstrings.

`python -m bench.api` writes the page; with `--check` the exit status is 1 if it is stale.

A function is shown by its signature, a record by its fields with their comments, a class by the signatures of its methods.
"""

import ast
import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import highwater

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
HEAD = """# What can I import?

`import highwater` gives the names below. They are promised to stay, and so are the
[modules for a protocol of one's own](#modules-for-a-protocol-of-ones-own), and the two functions of `highwater.spark`
([spark.md](guide/spark.md)); nothing else is. The page is generated from the docstrings by `python -m bench.api`. A type
checker sees the types: the package has a `py.typed`.

    pip install highwater-verify            # explore a model, simulate, check a trace
    pip install 'highwater-verify[spark]'   # campaigns, and traces in bulk
    pip install 'highwater-verify[proofs]'  # proofs with Z3
    pip install 'highwater-verify[s3]'      # S3Store, store probe
    pip install 'highwater-verify[codecs]'  # SSTs of SlateDB that are packed with snappy, LZ4 or zstd
"""
SECTIONS = {  # title -> the modules of highwater.PLACES
    "Models": ("model.core",),
    "Explore a model": ("model.explore.tabulated", "model.explore.walk", "model.liveness", "model.guards"),
    "Simulate an implementation": ("dst.scenario", "dst.run_spec", "dst.simulate", "dst.world.faults"),
    "Check a trace": ("traces.event", "traces.refine", "traces.trace"),
    "The store and the world behind it": ("impl.world",),
    "Errors of a store": ("impl.errors",),
    "Stores": ("impl.stores.memory", "impl.stores.local", "impl.stores.s3", "impl.stores.system"),
}

OWN = {  # module that a protocol of one's own imports, beside the names above -> its names
    "model.parts": ("below", "one_more", "reply_lost", "crashed", "pooled", "in_pool", "queued", "in_queue", "top", "with_file",
                    "clients", "store", "all_but", "MANY"),
    "impl.world": ("list_all",),
    "impl.layout": ("Namespace",),
    "traces.form": ("Keys",),
    "traces.trace": ("Trace", "refiner_without_witnesses", "update_of"),
    "traces.refine": ("STUTTER", "refiner_of"),
    "traces.calls": ("Answer", "returns", "definite", "indefinite", "with_timeouts"),
    "traces.options": ("Options", "Recorded", "Unfit"),
    "traces.histories.serial": ("Operation", "anomalies"),
    "traces.damage.knowledge": ("Knowledge",),
    "traces.recorded.judge": ("take", "send", "no_action"),
    "traces.recorded.machine": ("Machine",),
    "traces.recorded.orders": ("Refusal",),
    "traces.recorded.s3log": ("Request",),
    "traces.recorded.s3store": ("ABSENT", "Change", "Key"),
    "project": ("use",),
    "dst.scenario": ("BaseShape", "Build", "Draw", "STORES", "counted", "empty_store", "unit_of_pauses_ms",
                     "pause_and_timeout_ms"),
    "dst.actors": ("Actors", "Said", "said_by", "raise_anomalies"),
    "dst.script": ("Alone", "Script", "LOST", "HANGS", "UNHEARD", "same", "check", "fails_with"),
    "dst.sim.kernel": ("Client",),
    "dst.world.store": ("SimulatedStore",),
    "dst.world.network": ("TIMEOUT_MS",),
    "gate.rows": ("Check", "Found"),
    "model.proofs.engine.system": ("System", "View", "Scope", "Tables"),
    "model.proofs.engine.logic": ("And", "Or", "Not", "Implies", "If", "at"),
    "model.proofs.engine.parts": ("nothing", "zero", "room", "one_more", "larger", "authored", "own", "same"),
    "model.proofs.engine.inductive": ("prove", "Proof", "Row"),
    "model.proofs.engine": (),
}


HOOKS = ("_answered", "_unanswered", "_crashed", "_request", "_sends", "_arrives", "_told_of", "_updates", "_note",
         "_pass_time", "_says", "_tells", "_misled", "_no_action", "_last_of")  # of Trace: a mapping overrides or calls them


def own() -> str:
    """Return the table of modules for a protocol of one's own, and what their functions do."""
    rows, lists = [], []
    for module, names in OWN.items():
        path = Path(highwater.__file__).parent / f"{module.replace('.', '/')}"
        tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
        says = first_paragraph(tree)
        if lines := [line for node in tree.body if getattr(node, "name", "") in names for line in told(node)]:
            lists.append("\n".join([f"### highwater.{module}\n", *lines, ""]))
        rows.append(f"| `highwater.{module}` | {', '.join(f'`{name}`' for name in names) or 'all modules'} | {says} |")
    return "\n".join(["## Modules for a protocol of one's own\n",
                      "A model, a mapping and a scenario also need the parts below. [project.md](guide/project.md) says which",
                      "module of a project needs which.\n",
                      "| module | names | what the module is for |", "|---|---|---|", *rows, "", *lists])


def first_paragraph(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


def told(node: ast.stmt) -> Iterator[str]:
    """Yield a line for a function, or for a class and each of its methods that a user calls or overrides."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        of = node.args
        names = [*(one.arg for one in of.args if one.arg not in ("self", "cls")), *([f"*{of.vararg.arg}"] if of.vararg else ()),
                 *(f"{one.arg}=" for one in of.kwonlyargs), *([f"**{of.kwarg.arg}"] if of.kwarg else ())]
        yield f"- `{node.name}({', '.join(names)})`: {first_paragraph(node)}"
    if isinstance(node, ast.ClassDef) and ast.get_docstring(node):
        yield f"- `{node.name}`: {first_paragraph(node)}"
        for method in node.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and (method.name[0] != "_" or method.name in HOOKS):
                yield from (f"  {line}" for line in told(method))


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, modules in SECTIONS.items():
        parts.append(f"## {title}\n")
        for module in modules:
            parts += [entry(module, name) for name in highwater.PLACES[module]]
    return "\n".join([*parts, own()])


LONGEST = 110  # characters of a line; a longer signature has a line for each argument


def entry(module: str, name: str) -> str:
    """Return one name's heading, signature and docstring."""
    source = (Path(highwater.__file__).parent / f"{module.replace('.', '/')}.py").read_text()
    node = next(one for one in ast.parse(source).body
                if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name)
    shown = "\n".join(outline(node, source.splitlines()) if isinstance(node, ast.ClassDef) else [signature(node)])
    text = cleandoc(ast.get_docstring(node) or "")
    return f"### {name}\n\n```python\n# highwater.{module}\n{shown}\n```\n" + (f"\n{text}\n" if text else "")


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{word} {node.name}({ast.unparse(node.args)}){returned}"
    if len(line) <= LONGEST:
        return line
    return f"{word} {node.name}(\n    {split(node.args)},\n){returned}"


def split(arguments: ast.arguments) -> str:
    """Return the arguments, each on a line of its own."""
    names = [*arguments.posonlyargs, *arguments.args]
    usual = [None] * (len(names) - len(arguments.defaults)) + list(arguments.defaults)
    rows = [ast.unparse(name) + (f"={ast.unparse(value)}" if value else "") for name, value in zip(names, usual)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults)
    rows += ["*"] * bool(arguments.kwonlyargs)
    rows += [ast.unparse(name) + (f"={ast.unparse(value)}" if value else "") for name, value in keywords]
    return ",\n    ".join(rows)


def outline(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """Yield a class's first line, its fields as they stand in the source, and its public methods' signatures."""
    bases = ", ".join(map(ast.unparse, node.bases))
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    for one in node.body:
        if isinstance(one, ast.AnnAssign):
            source = lines[one.lineno - 1:one.end_lineno]
            yield "\n".join(re.sub(r"  # noqa: \w+", "", line) for line in source)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and (one.name == "__init__" or one.name[0] != "_"):
            yield from (f"    @{ast.unparse(decorator)}" for decorator in one.decorator_list)
            yield f"    {signature(one)}"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check tell by the exit status whether it is current."""
    if arguments == ["--check"]:
        return int(not PAGE.exists() or PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
