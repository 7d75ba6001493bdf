"""Search the source for anything that can make two runs with the same choices differ.

Safety: a run is a function of its choices only if the code that runs in it depends on nothing else. Python differs between runs
in the order of sets, addresses and hashes, time, randomness, threads, the environment, finalizers, floats that hold a time,
caches, and exceptions that hold frames. The rules look at syntax only and report too much rather than too little. Exceptions
are listed with their reasons in dst/determinism/lint_allowed.py.

ruff has some of these rules (DTZ, S311), but it does not know where the seam to the world is, nor what is allowed for a reason.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from highwater import project
from highwater.dst.determinism.lint_allowed import ALLOWED, Allowed
from highwater.dst.determinism.lint_sets import SCOPES, SET_METHODS, Sets, Whole, inside, name_of

ROOT = Path(__file__).parent.parent.parent  # the folder of the package `highwater`
FOLDERS = ("impl", "dst", "traces", "model")
OUTSIDE = ("impl/stores/s3.py", "impl/stores/local.py", "impl/stores/system.py",  # the world
           "impl/stores/folder_disk.py", "impl/stores/node_system.py", "impl/stores/frames.py", "impl/stores/stream_net.py",
           "impl/stores/certificates.py", "impl/stores/connections.py", "impl/stores/front.py", "impl/stores/grpc_calls.py",
           "dst/campaign/", "dst/bulk/", "dst/spark/")
BESIDE = ("proof", "judge", "damage", "checks")  # parts of a user's protocol that do not run in the simulation


class Finding(NamedTuple):
    file: str
    line: int
    hazard: str  # of HAZARDS
    code: str  # the source, on one line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.hazard}: {self.code}\n    {HAZARDS[self.hazard]}"


HAZARDS = {  # hazard -> what to do instead
    "set order": "the order of a set differs between processes: sorted(...), or keep a tuple or a dict",
    "address": "id() is an address: number the objects yourself",
    "hash": "hash() of a string differs between processes: use hashlib, or the value itself",
    "randomness": "draw it from a stream of dst/sim/choose.py, or of the world's ids",
    "time": "ask the world's clock",
    "concurrency": "one coroutine at a time: the kernel decides who goes on",
    "environment": "take it as an argument",
    "directory order": "a folder's order is the file system's: sorted(...)",
    "float time": "times are whole numbers of milliseconds: // and int",
    "finalizer": "when an object dies is the garbage collector's affair: close it where its use ends",
    "address in text": "the default repr shows an address: name the fields",
    "cache": "what is kept from one run must be a function of its key: say why it is, in dst/determinism/lint_allowed.py",
    "frames": "an exception keeps the frames that it went through, and all that is in them: set __traceback__ to None",
}


# --- the rules

HARMLESS = ("sorted", "len", "sum", "min", "max", "any", "all", "set", "frozenset", "Counter")  # their results have no order
MODULES = {
    **dict.fromkeys(("random", "uuid", "secrets", "ulid"), "randomness"), "time": "time", "datetime": "time",
    **dict.fromkeys(("asyncio", "threading", "concurrent", "multiprocessing", "queue", "signal", "sched"), "concurrency"),
    "weakref": "finalizer", "os": "environment", "glob": "directory order", "tempfile": "randomness",
}
PARTS = {  # of modules that are otherwise fine
    "os.urandom": "randomness", "os.getpid": "environment", "sys.argv": "environment", "gc.get_objects": "address",
    "platform.node": "environment", "socket.gethostname": "environment",
}
LISTINGS = ("glob", "rglob", "iterdir", "listdir", "scandir")


class Linter:
    def __init__(self, file: str, tree: ast.Module, sets: Sets):
        self.file, self.sets, self.found = file, sets, set()
        self.parents: dict[Any, ast.AST] = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.tree = tree

    def findings(self) -> list[Finding]:
        self.scope(self.tree, set())
        for node in self.tree.body:
            self.module_level(node)
        return sorted(self.found)

    def say(self, node: Any, hazard: str) -> None:
        self.found.add(Finding(self.file, node.lineno, hazard, ast.unparse(node).partition("\n")[0][:160]))

    def scope(self, scope: ast.AST, outer: set[str]) -> None:
        names = self.sets.names(scope, outer)
        for node in inside(scope):
            self.order(node, names)
            self.world(node)
            self.objects(node)
            if isinstance(node, SCOPES):
                self.scope(node, names)

    # --- sets whose order comes out

    def order(self, node: ast.AST, names: set[str]) -> None:
        if isinstance(node, ast.For | ast.AsyncFor) and self.sets.holds(node.iter, names):
            self.say(node, "set order")
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            if any(self.sets.holds(of.iter, names) for of in node.generators) and not self.consumed(node):
                self.say(node, "set order")
        elif isinstance(node, ast.Starred) and self.sets.holds(node.value, names):
            if not isinstance(self.parents.get(node), ast.Set) and not self.consumed(node):
                self.say(node, "set order")
        elif isinstance(node, ast.Call):
            name, called = name_of(node.func), node.func
            if name in ("list", "tuple", "iter", "enumerate", "map", "zip", "filter", "reversed", "next") or \
                    name.endswith((".join", ".extend", ".fromkeys", "chain.from_iterable")):
                if any(self.sets.holds(of, names) for of in node.args) and not self.consumed(node):
                    self.say(node, "set order")
            elif isinstance(called, ast.Attribute) and called.attr == "pop" and not node.args and \
                    self.sets.holds(called.value, names):
                self.say(node, "set order")
        elif isinstance(node, ast.FormattedValue) and self.sets.holds(node.value, names):
            self.say(node, "set order")  # its repr

    def consumed(self, node: ast.AST) -> bool:
        """Tell whether the value goes directly to something without order: sorted(...), sum(...), a set."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Call) and (name_of(parent.func) in HARMLESS or name_of(parent.func).endswith(
                tuple(f".{of}" for of in (*SET_METHODS, "update", "issubset", "issuperset")))):
            return True
        passing_on = ("list", "tuple", "map", "filter", "enumerate", "zip")
        return isinstance(parent, ast.Call) and name_of(parent.func) in passing_on and self.consumed(parent)

    # --- what is outside the seam

    def world(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imported(node, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            self.imported(node, node.module)
        elif isinstance(node, ast.Attribute) and name_of(node) in PARTS:
            self.say(node, PARTS[name_of(node)])
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            if name == "id":
                self.say(node, "address")
            elif name == "hash":
                self.say(node, "hash")
            elif name.rpartition(".")[2] in LISTINGS and not self.consumed(node) and not self.sorted_later(node):
                self.say(node, "directory order")

    def imported(self, node: ast.AST, name: str) -> None:
        top = name.partition(".")[0]
        if name not in ("os.path",) and top in MODULES:
            self.say(node, MODULES[top])

    def sorted_later(self, node: ast.AST | None) -> bool:
        """Tell whether it is inside a comprehension that goes to sorted."""
        while (node := self.parents.get(node)) is not None and not isinstance(node, ast.stmt):
            if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp) and self.consumed(node):
                return True
        return False

    # --- objects that know more than their value

    def objects(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            self.say(node, "finalizer")
        elif shows_address(node):
            self.say(node, "address in text")
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self.float_time(node)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self.kept(node)

    def float_time(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        timed = [of for of in targets if name_of(of).endswith(("_ms", "_ns", "_us"))]
        if timed and node.value is not None and (
                (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div)) or floating(node.value)):
            self.say(node, "float time")

    def kept(self, handler: ast.ExceptHandler) -> None:
        """Report an exception that outlives its handler because it is assigned or stored: it keeps all its frames alive.

        It is fine if the function assigns __traceback__ somewhere."""
        if any(isinstance(node, ast.Attribute) and node.attr in ("__traceback__", "with_traceback")
               and not isinstance(self.parents.get(node), ast.Attribute) and isinstance(node.ctx, ast.Store)
               for node in ast.walk(self.function_of(handler))):
            return
        for node in inside(handler):
            stored = [*values(node.value)] if isinstance(node, ast.Assign) else \
                node.args if isinstance(node, ast.Call) and name_of(node.func).endswith((".append", ".add")) else []
            if any(isinstance(of, ast.Name) and of.id == handler.name for of in stored):
                self.say(node, "frames")

    def function_of(self, node: ast.AST) -> ast.AST:
        while node in self.parents and not isinstance(node, SCOPES):
            node = self.parents[node]
        return node

    # --- what outlives a run

    def module_level(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            value = node.value
            empty = (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts) or (
                isinstance(value, ast.Call) and name_of(value.func) in (
                    "dict", "list", "set", "defaultdict", "Counter", "deque", "OrderedDict", "count", "itertools.count"))
            if empty and not (isinstance(value, ast.Call) and (value.args or value.keywords) and
                              name_of(value.func) in ("dict", "list", "set")):
                self.say(node, "cache")
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in inner.decorator_list:
                    if cached(decorator):
                        self.found.add(Finding(self.file, decorator.lineno, "cache", f"@{ast.unparse(decorator)} {inner.name}"))
            elif isinstance(inner, ast.Global) or (
                    isinstance(inner, ast.Call) and isinstance(inner.func, ast.Call) and cached(inner.func)):
                self.say(inner, "cache")


def shows_address(node: ast.AST) -> bool:
    """Tell whether it formats an object whose repr may show an address: self, or %r of a log line."""
    def own(of: ast.AST) -> bool:
        return isinstance(of, ast.Name) and of.id == "self"

    if isinstance(node, ast.FormattedValue):
        return node.conversion == ord("r") and own(node.value)
    if not isinstance(node, ast.Call):
        return False
    if name_of(node.func) in ("repr", "str", "ascii", "object.__repr__"):
        return any(map(own, node.args))
    return name_of(node.func).startswith(("logging.", "log.", "logger.")) and any(
        "%r" in str(of.value) for of in node.args if isinstance(of, ast.Constant))


def cached(node: ast.AST) -> bool:
    return name_of(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2] in ("cache", "lru_cache")


def values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the values that an assignment stores: the elements of a tuple, or the value."""
    yield from node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def floating(node: ast.AST) -> bool:
    """Tell whether an arithmetic expression is a float: a division or a float constant outside int() and round()."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) or (not isinstance(node.op, ast.FloorDiv) and (
            floating(node.left) or floating(node.right)))
    return (isinstance(node, ast.UnaryOp) and floating(node.operand)) or (
        isinstance(node, ast.Call) and name_of(node.func) == "float")


# --- all of it

def sources(root: Path = ROOT) -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))
            if not path.relative_to(root).as_posix().startswith(OUTSIDE)]


def of_project() -> dict[str, Path]:
    """Return the files of the project that run in the simulation: all but the parts that only a tool runs, and tests."""
    beside = {project.file_of(part, stem) for stem in project.users() for part in BESIDE}
    return {name: path for name, path in project.sources() if path not in beside}


def searched() -> tuple[Mapping[str, Path], list[Allowed]]:
    """Return the files (name -> path) in which hazards are looked for, and those that are allowed there: of the project that
    is used, else ours. Raises ProjectError."""
    if not project.current():
        return {path.relative_to(ROOT).as_posix(): path for path in sources()}, list(ALLOWED)
    try:
        return of_project(), [Allowed(**entry) for entry in project.settings().get("allowed", ())]
    except TypeError as error:
        fields = ", ".join(Allowed._fields)
        raise project.ProjectError(f"{project.FILE}: [[allowed]] has the fields {fields}: {error}") from None


def covers(entry: Allowed, finding: Finding) -> bool:
    return (entry.file, entry.hazard) == (finding.file, finding.hazard) and entry.code in finding.code


def lint(root: Path = ROOT, allowed: Iterable[Allowed] = ALLOWED, begin: Callable[[str], None] = lambda file: None,
         files: Mapping[str, Path] | None = None) -> tuple[list[Finding], list[Allowed]]:
    """Return findings that are not allowed, and allowed entries without a finding, which are obsolete.

    `begin` is called with the name of each file before it is searched. `files` (name -> path) are searched in place of ours.
    Raises SyntaxError."""
    if files is None:
        files = {path.relative_to(root).as_posix(): path for path in sources(root)}
    trees = {name: ast.parse(path.read_text(), str(path)) for name, path in files.items()}
    found: list[Finding] = []
    whole = Whole.of(trees.values())
    for file, tree in trees.items():
        begin(file)
        found += Linter(file, tree, Sets(tree, whole)).findings()
    return ([finding for finding in found if not any(covers(entry, finding) for entry in allowed)],
            [entry for entry in allowed if not any(covers(entry, finding) for finding in found)])
