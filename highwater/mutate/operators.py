"""Make mutants: realistic small mistakes in a file, one at a time.

Each operator looks at a node of the syntax tree and proposes edits of the text. The rest of the file stays as it is, so the
difference is what a reader sees. What cannot change behaviour is left alone: docstrings, messages, annotations, metrics. So
is what nobody would call a bug: 99 attempts instead of 100, or spaces in JSON.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from highwater.mutate.noise import SPELLING, is_dumps, noise_in

WORD = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
        ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//",
        ast.BitOr: "|", ast.BitAnd: "&"}
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
            ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.BitOr: "&", ast.BitAnd: "|"}
CALLED = {"max": "min", "min": "max", "any": "all", "all": "any"}
WATCHED = ("metrics",)  # calls of these objects are for people who watch, and change nothing


class Edit(NamedTuple):
    operator: str
    first: int  # the lines that it changes, counted from 1
    last: int
    start: int  # the text from `start` to `end` is replaced
    end: int
    text: str


class Mutant(NamedTuple):
    file: str  # as "impl/protocols/boundary_object.py"
    operator: str
    first: int
    last: int
    before: str  # the changed lines, without indentation
    after: str
    source: str  # of the whole file
    function: str = ""  # the innermost one around its first line, as "Store.put"; "" outside of functions
    head: int = 0  # the first line of the function in whose head it is; 0: in none

    @property
    def name(self) -> str:
        return f"{self.file}:{self.first}: {self.operator}: {self.before!r} -> {self.after!r}"


def mutants(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, each once, in the order of its lines. Some may not compile. Raises SyntaxError."""
    found: dict[tuple[int, int, str], Mutant] = {}
    tree = ast.parse(source)
    functions, heads = dict(functions_of(tree, "")), dict(heads_of(tree))
    for edit in sorted(edits(source), key=lambda edit: (edit.first, edit.start, edit.end, edit.operator, edit.text)):
        changed = source[:edit.start] + edit.text + source[edit.end:]
        if changed != source and edit[3:] not in found:
            before, after = lines_of(source, edit.first, edit.last, 0), lines_of(changed, edit.first, edit.last, len(
                changed.split("\n")) - len(source.split("\n")))
            found[edit[3:]] = Mutant(file, edit.operator, edit.first, edit.last, before, after, changed,
                                     functions.get(edit.first, ""), heads.get(edit.first, 0))
    return list(found.values())


def functions_of(tree: ast.AST, within: str) -> Iterator[tuple[int, str]]:
    """Yield (line, qualified name) of the lines of functions, those of inner functions after those of outer ones."""
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}".lstrip(".")
        if name != within and not isinstance(node, ast.ClassDef):
            yield from ((line, name) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))  # pyright: ignore[reportAttributeAccessIssue]
        yield from functions_of(node, name)


def heads_of(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield (line, first line of the function, decorators included) of the lines in heads of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield from ((line, first) for line in range(node.lineno, node.body[0].lineno))


def compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def lines_of(source: str, first: int, last: int, more: int) -> str:
    """Return lines without their indentation, on one line. `more`: how many lines were added."""
    return " ".join(line.strip() for line in source.split("\n")[first - 1:last + more])


class Places:
    """Offsets in the text of a file of the nodes of its tree."""

    def __init__(self, source: str) -> None:
        self.source, self.starts = source, [0]
        for line in source.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.bytes = source.isascii()

    def at(self, line: int, column: int) -> int:
        """Return the offset of a line and a column, which the tree counts in bytes."""
        start = self.starts[line - 1]
        if self.bytes:
            return start + column
        text = self.source[start:self.starts[line] - 1]
        return start + len(text.encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (self.at(node.lineno, node.col_offset),  # pyright: ignore[reportAttributeAccessIssue]
                self.at(node.end_lineno, node.end_col_offset))  # pyright: ignore[reportAttributeAccessIssue]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def grouped(self, node: ast.AST) -> str:
        """Return its text, in parentheses if it might fall apart without them: its span does not hold its own."""
        loose = isinstance(node, (ast.BoolOp, ast.BinOp, ast.IfExp, ast.Lambda, ast.NamedExpr))
        return f"({self.text(node)})" if loose else self.text(node)

    def with_operator(self, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> str:
        """Return the text of a node with another operator between two of its operands. Their parentheses stay."""
        (start, end), middle, then = self.span(node), self.span(left)[1], self.span(right)[0]
        return self.source[start:middle] + self.source[middle:then].replace(old, new, 1) + self.source[then:end]


def edits(source: str) -> Iterator[Edit]:
    places = Places(source)
    tree = ast.parse(source)
    pool, noise = raised_in(tree, places), set(noise_in(tree))
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and (node.lineno, node.col_offset) in noise:
            continue
        for operator, target, text in (*of_expression(node, places), *of_statement(node, places, pool)):
            start, end = places.span(target)
            yield Edit(operator, target.lineno, target.end_lineno, start, end, text)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        yield from of_body(node, places)


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes whose change may change behaviour."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases") or is_for_people(node):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_docstring(child) and not isinstance(
                    child, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                yield from nodes(child)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_for_people(node: ast.AST) -> bool:
    """Return whether this is a call of a metric or a log, or gives an error its message."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call) and called.attr == "__init__":
        return has_text(node)
    return isinstance(called, ast.Attribute) and isinstance(called.value, (ast.Attribute, ast.Name)) and (
        called.value.attr if isinstance(called.value, ast.Attribute) else called.value.id) in WATCHED


def raised_in(tree: ast.AST, places: Places) -> dict[int, list[str]]:
    """Map a number of arguments to the errors that are raised with so many in this file."""
    found: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            names = found.setdefault(len(node.exc.args), [])
            if node.exc.func.id not in names:
                names.append(node.exc.func.id)
    return found


# --- expressions

def of_expression(node: ast.AST, places: Places) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield (operator, what is replaced, by what)."""
    match node:
        case ast.Compare(left=first, ops=ops, comparators=rest):
            for op, left, right in zip(ops, (first, *rest), rest):
                yield "comparison", node, places.with_operator(node, left, right, WORD[type(op)], COMPARED[type(op)])
        case ast.BoolOp(values=values):
            word = " and " if isinstance(node.op, ast.And) else " or "
            for value in values:
                others = [other for other in values if other is not value]
                kept = [places.grouped(other) if others[1:] else places.text(other) for other in others]
                yield "operand dropped", node, f"({word.join(kept)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation dropped", node, places.grouped(operand)
        case ast.IfExp(body=body, orelse=other):
            yield "condition dropped", node, f"({places.text(body)})"
            yield "condition dropped", node, f"({places.text(other)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED and not has_text(node):
            yield "arithmetic", node, places.with_operator(node, left, right, WORD[type(op)], COMPUTED[type(op)])
            if isinstance(op, ast.Sub):
                yield "arithmetic", node, f"{places.grouped(right)} - {places.grouped(left)}"
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, str(value + 1)
            if value:
                yield "constant", node, str(value - 1)
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)) as index):
            yield "first for last", index, "0"
        case ast.Subscript(slice=ast.Slice() as piece):
            yield "slice dropped", piece, ":"
        case ast.Call(func=ast.Name(id=name) as called) if name in CALLED:
            yield "min and max", called, CALLED[name]
        case ast.Call(keywords=keywords, args=args):
            yield from arguments_dropped(node, places, keywords)
            if len(args) == 2 and not has_text(node) and places.text(args[0]) != places.text(args[1]):
                yield "arguments swapped", node, (f"{places.text(node.func)}({places.text(args[1])}, {places.text(args[0])}"
                                                  + "".join(f", {places.text(each)}" for each in keywords) + ")")
        case ast.comprehension(ifs=[first]):
            yield "condition dropped", first, "True"
        case _:
            pass


def has_text(node: ast.AST) -> bool:
    """Return whether there is a text in it: then it makes a key or a message."""
    return any(isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
               for each in ast.walk(node))


def arguments_dropped(node: ast.Call, places: Places, keywords: list[ast.keyword]) -> Iterator[tuple[str, ast.AST, str]]:
    for dropped in keywords:
        if dropped.arg and not is_for_people(node) and not (is_dumps(node) and dropped.arg in SPELLING):
            kept = [places.text(each) for each in (*node.args, *(other for other in keywords if other is not dropped))]
            yield "argument dropped", node, f"{places.text(node.func)}({', '.join(kept)})"


# --- statements

def of_statement(node: ast.AST, places: Places, pool: dict[int, list[str]]) -> Iterator[tuple[str, ast.AST, str]]:
    match node:
        case ast.If(test=test):
            if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                yield "condition dropped", test, "True"
                yield "condition dropped", test, "False"
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            yield "condition dropped", test, "False"
        case ast.Expr(value=ast.Await()):
            yield "request dropped", node, "pass"
        case ast.Expr(value=ast.Call() as call) if not is_for_people(call):
            yield "call dropped", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.AugAssign():
            yield "assignment dropped", node, "pass"
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            yield from assigned_without(targets, values, node, places)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield "result dropped", node, "return None"
        case ast.Continue():
            yield "retry dropped", node, "break"
        case ast.Break():
            yield "end of a loop dropped", node, "pass"
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name) as called, args=args)):
            yield "error swallowed", node, "pass"
            for other in pool.get(len(args), ()):
                if other != name:
                    yield "error reclassified", called, other
        case ast.Raise():
            yield "error swallowed", node, "pass"
        case ast.ExceptHandler(type=ast.Tuple(elts=types) as group):
            for dropped in types:
                kept = [places.text(each) for each in types if each is not dropped]
                yield "error not caught", group, f"({', '.join(kept)},)"
        case _:
            pass


def assigned_without(targets: list[ast.expr], values: list[ast.expr], node: ast.AST,
                     places: Places) -> Iterator[tuple[str, ast.AST, str]]:
    """Drop one of several attributes that are assigned at once."""
    for dropped in targets:
        if isinstance(dropped, ast.Attribute):
            kept = [(target, value) for target, value in zip(targets, values) if target is not dropped]
            left, right = (", ".join(map(places.text, side)) for side in zip(*kept))
            yield "assignment dropped", node, f"{left} = {right}"


# --- bodies

def of_body(node: ast.AST, places: Places) -> Iterator[Edit]:
    """Yield edits of whole bodies: of loops, of handlers, and of two statements that stand one after the other."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.While) and not isinstance(
            last := node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
        start = places.span(last)[1]
        first = last.lineno
        yield Edit("one round only", first, last.end_lineno or first, start, start, f"\n{' ' * node.body[0].col_offset}break")
    if isinstance(node, ast.ExceptHandler) and node.body[0].lineno > node.lineno:
        start, end = places.span(node.body[0])[0], places.span(node.body[-1])[1]
        ends = any(isinstance(each, ast.Raise) for each in node.body)
        yield Edit("error swallowed" if ends else "error not caught", node.body[0].lineno, node.body[-1].end_lineno or 0, start,
                   end, "pass" if ends else "raise")
    for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
        for one, two in pairwise(body) if isinstance(body, list) else ():
            if has_request(one) and has_request(two) and not (assigned(one) & used(two)):
                (start, middle), (then, end) = places.span(one), places.span(two)
                between = places.source[middle:then]
                yield Edit("requests swapped", one.lineno, two.end_lineno, start, end,
                           places.text(two) + between + places.text(one))


def has_request(node: ast.stmt) -> bool:
    simple = isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign))
    return simple and any(isinstance(each, ast.Await) for each in ast.walk(node))


def assigned(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def used(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
