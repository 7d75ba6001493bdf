"""Safety: an explanation of a guard is what the model's source says: the first false test, with its operands and its line; the
tests of an action as they are written; the comment of a field.

The source of a function is parsed and walked with the actual arguments. The models know nothing of it and stay plain
generators. If a function has no such source (a partial, a callable object, two lambdas on one line), the explanation says less,
but nothing wrong.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeGuard

from highwater.model import parts

LONGEST = 400  # characters of one value


class Refusal(NamedTuple):
    guard: str  # as written: `present(s, w.n)`, `not few(s, 3)`
    where: str  # model/protocols/<stem>.py:123
    operands: tuple[str, ...]  # `w.n is 2`
    needs: "Refusal | None" = None  # what the function that the guard calls refused in its turn
    of: str = ""  # the name of the function that refused

    def __str__(self) -> str:
        of = f", which needs {self.needs}" if self.needs else f": {', '.join(self.operands)}" if self.operands else ""
        return f"{self.guard} ({self.where}){of}"


def show(value: Any) -> str:
    """Sets in order, records without what is empty in them."""
    if hasattr(value, "_fields"):
        text = f"{type(value).__name__}({', '.join(f'{name}={show(v)}' for name, v in value._asdict().items() if v)})"
    elif isinstance(value, (frozenset, set)):
        text = "{" + ", ".join(sorted(map(show, value), key=lambda t: (len(t), t))) + "}"
    elif isinstance(value, (tuple, list)):
        text = "(" + ", ".join(map(show, value)) + ")"
    else:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def why_not(function: Any, *arguments: Any, observed: tuple | None = None) -> str:
    """Say which guard of an action refuses these arguments, with the values that it saw."""
    return str(refusal(function, *arguments, observed=observed))


def refusal(function: Callable, *arguments: Any, observed: tuple | None = None) -> Refusal:
    """The first test, loop or result of a function that let nothing pass, and what its operands were. Of the turns of a
    loop the one whose choice was `observed` is preferred."""
    if not has_source(function):
        return Refusal("what its source would say", named(function), ())
    try:
        return walked(function, *arguments, observed=observed)._replace(of=function.__name__)
    except Exception:  # a user's function may hold what is not walked here, `while` or `with`: its verdict stands without
        found, path = definition(module_of(function), function.__code__)
        return Refusal("more than its tests say", f"{path}:{found.lineno}", ())


def walked(function: Callable, *arguments: Any, observed: tuple | None) -> Refusal:
    module = module_of(function)
    found, path = definition(module, function.__code__)
    body: list[ast.stmt] = [returned(found)] if isinstance(found, ast.Lambda) else found.body
    closed = dict(zip(function.__code__.co_freevars, [cell.cell_contents for cell in function.__closure__ or ()]))
    scope = {**function.__globals__, **closed, **named_arguments(function.__code__, arguments)}
    refusals = list(refused(body, scope, ())) if observed else next(([r] for r in refused(body, scope, ())), [])
    if not refusals:
        return Refusal("more than its tests say", f"{path}:{found.lineno}", ())
    _, node, wanted, scope = next((r for r in refusals if r[0] == observed), refusals[0])
    while isinstance(node, (ast.UnaryOp, ast.BoolOp, ast.IfExp)) or is_bool(node):  # down to the conjunct that is false
        if isinstance(node, ast.Call):
            node = node.args[0]
        elif isinstance(node, ast.UnaryOp):
            node, wanted = node.operand, not wanted
        elif isinstance(node, ast.IfExp):
            node = node.body if value_of(node.test, scope) else node.orelse
        elif isinstance(node.op, ast.And) != wanted:
            break
        else:
            node = next(part for part in node.values if bool(value_of(part, scope)) != wanted)
    guard, where = f"{'not ' * (not wanted)}{segment(node, module)}", f"{path}:{node.lineno}"
    if wanted and isinstance(node, ast.Call) and not node.keywords and inspect.isfunction(value_of(node.func, scope)):
        return Refusal(guard, where, (), refusal(value_of(node.func, scope), *value_of(arguments_of(node), scope)))
    if wanted and (needs := of_first_turn(node, scope)):
        return Refusal(guard, where, (), needs)
    operands, compared = [], [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    for part in operands_of(node):
        value = value_of(part, scope)
        if hasattr(value, "__next__"):  # an iterator has no value to show but its address, which differs from run to run
            continue
        if part in compared or not (isinstance(part, ast.Name) and hasattr(value, "_fields")):  # not the whole of s or w
            operands.append(f"{'observed ' * (names_of(part) <= closed.keys())}{segment(part, module)} is {show(value)}")
    return Refusal(guard, where, tuple(dict.fromkeys(operands)))


def is_bool(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool" and len(node.args) == 1


def of_first_turn(node: ast.expr, scope: dict) -> Refusal | None:
    """Return what refuses the first turn of `any([function(..) for ..])`; None if the expression is something else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "any" and node.args):
        return None
    turns = node.args[0]
    if not (isinstance(turns, (ast.ListComp, ast.GeneratorExp)) and len(turns.generators) == 1 and not turns.generators[0].ifs):
        return None
    called, first = turns.elt, next(iter(value_of(turns.generators[0].iter, scope)), None)
    if first is None or not isinstance(called, ast.Call) or called.keywords:
        return None
    scope = {**scope, "_turn": first}
    exec(bound(turns.generators[0].target), scope)
    function = value_of(called.func, scope)
    return refusal(function, *value_of(arguments_of(called), scope)) if inspect.isfunction(function) else None


def named_arguments(code: CodeType, arguments: tuple) -> dict[str, Any]:
    """Return the arguments by name; those of `*rest` under its name."""
    number, names = code.co_argcount, code.co_varnames
    rest = {names[number + code.co_kwonlyargcount]: arguments[number:]} if code.co_flags & inspect.CO_VARARGS else {}
    return {**dict(zip(names, arguments[:number] if rest else arguments)), **rest}


# --- a function, from its source ----------------------------------------------------------------------------------------

@cache
def parsed(module: str) -> tuple[ast.Module, tuple[bytes, ...]]:
    """Its tree and its lines, in bytes: so does a tree count."""
    source = inspect.getsource(sys.modules[module])
    return ast.parse(source), tuple(source.encode().split(b"\n"))


@cache
def definition(module: str, code: CodeType) -> tuple[ast.FunctionDef | ast.Lambda, str]:
    """Its node, and the path that a reader is sent to. Raises LookupError if it is not in the source, or not alone."""
    found = [node for node in ast.walk(parsed(module)[0]) if isinstance(node, (ast.FunctionDef, ast.Lambda))
             and code.co_firstlineno == min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
             and code.co_name == getattr(node, "name", "<lambda>")]
    if len(found) != 1:
        raise LookupError(f"{module}:{code.co_firstlineno}: {len(found)} functions")
    return found[0], f"{module.removeprefix('highwater.').replace('.', '/')}.py"


def module_of(function: Callable) -> str:
    """Return the module in which the function was written; __module__ may have been copied from a wrapped function."""
    return function.__globals__["__name__"]


def has_source(function: Callable) -> bool:
    if not inspect.isfunction(function):
        return False
    try:
        definition(module_of(function), function.__code__)
    except (LookupError, OSError, TypeError, SyntaxError):
        return False
    return True


def named(function: Callable) -> str:
    """Return the name shown for a function without source."""
    function = getattr(function, "func", function)  # of a partial
    return getattr(function, "__qualname__", type(function).__qualname__)


def place_of(function: Callable) -> str:
    """model/protocols/<stem>.py:123, or its name."""
    if not has_source(function):
        return named(function)
    found, path = definition(module_of(function), function.__code__)
    return f"{path}:{found.lineno}"


def doc(function: Callable) -> str:
    return " ".join((getattr(function, "func", function).__doc__ or "").split())


@cache
def segment(node: ast.expr | ast.stmt, module: str) -> str:
    """Return the source of a node, on one line."""
    lines = parsed(module)[1][node.lineno - 1:node.end_lineno]
    lines = *lines[:-1], lines[-1][:node.end_col_offset]
    return " ".join(b"\n".join((lines[0][node.col_offset:], *lines[1:])).decode().split())


@cache
def returned(node: ast.Lambda) -> ast.Return:
    return ast.Return(node.body)


@cache
def arguments_of(node: ast.Call) -> ast.Tuple:
    return ast.copy_location(ast.Tuple(node.args, ast.Load()), node)


@cache
def compiled(node: ast.expr | ast.stmt) -> CodeType:
    if isinstance(node, ast.expr):
        return compile(ast.Expression(node), "<guard>", "eval")
    return compile(ast.Module([node], []), "<guard>", "exec")


@cache
def bound(target: ast.expr) -> CodeType:
    return compile(f"{ast.unparse(target)} = _turn", "<guard>", "exec")


def value_of(node: ast.expr, scope: dict) -> Any:
    return eval(compiled(node), scope)


def refused(body: list[ast.stmt], scope: dict, turn: tuple) -> Iterator[tuple]:
    """(values of the loops, expression, the truth that was wanted of it, names then) of all that let nothing pass."""
    for statement in body:
        if isinstance(statement, ast.If):
            holds, leaves = bool(value_of(statement.test, scope)), isinstance(statement.body[-1], ast.Return)
            if holds == leaves:
                yield turn, statement.test, not leaves, dict(scope)
            yield from refused(statement.body if holds else statement.orelse, scope, turn)
            if holds and leaves:
                return
        elif isinstance(statement, ast.For):
            turns = list(value_of(statement.iter, scope))
            if not turns:
                yield turn, statement.iter, True, dict(scope)
            for scope["_turn"] in turns:
                exec(bound(statement.target), scope)
                yield from refused(statement.body, scope, (*turn, scope["_turn"]))
        elif isinstance(statement, ast.Return):
            if statement.value and not value_of(statement.value, scope):
                yield turn, statement.value, True, dict(scope)
            return
        elif not isinstance(statement, ast.Expr):  # a docstring, or a yield that is not reached
            exec(compiled(statement), scope)


@cache
def operands_of(node: ast.AST) -> tuple[ast.expr, ...]:
    """The parts of an expression whose values tell a reader something."""
    own = (node,) if isinstance(node, (ast.Attribute, ast.Subscript, ast.IfExp, ast.Name, ast.Call, ast.SetComp)) else ()
    within = () if isinstance(node, (ast.Attribute, ast.Subscript, ast.IfExp)) else \
        node.args if isinstance(node, ast.Call) else \
        [part.iter for part in node.generators] if isinstance(node, (ast.GeneratorExp, ast.SetComp, ast.ListComp)) else \
        ast.iter_child_nodes(node)
    return (*own, *(operand for part in within for operand in operands_of(part)))


@cache
def names_of(node: ast.expr) -> frozenset[str]:
    return frozenset(name.id for name in ast.walk(node) if isinstance(name, ast.Name))


# --- what a model's source says of itself -------------------------------------------------------------------------------

def guards_of(function: Callable) -> tuple[str, ...]:
    """The tests between an action's first line and its effects, as they are written: conjuncts one by one, what a name of
    them stands for as `name = ..`, a choice as `for ..`. A test with an effect on either side of it is none."""
    if not has_source(function) or isinstance(source := definition(module_of(function), function.__code__)[0], ast.Lambda):
        return ()
    found: list[str] = []
    for text in reversed(list(tests(source.body, module_of(function)))):
        names, assigned, _ = text.partition(" = ")
        if not assigned or set(re.findall(r"\w+", names)) & set(re.findall(r"\w+", " ".join(found))):
            found.insert(0, text)
    return tuple(found)


def tests(body: list[ast.stmt], module: str) -> Iterator[str]:
    for number, statement in enumerate(body):
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and any(map(decides, body[number + 1:])):
            yield segment(statement, module)
        elif isinstance(statement, ast.For) and yields(statement):
            yield f"for {segment(statement.target, module)} in {segment(statement.iter, module)}"
            yield from tests(statement.body, module)
        elif isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return):
            yield f"not ({segment(statement.test, module)})"
        elif isinstance(statement, ast.If) and decides(statement):
            test = statement.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            yield from (segment(part, module) for part in parts)
            yield from tests(statement.body, module)


def decides(statement: ast.stmt) -> bool:
    return yields(statement) and (isinstance(statement, ast.For) or (
        isinstance(statement, ast.If) and not any(map(yields, statement.orelse))))


def yields(statement: ast.AST) -> bool:
    return any(isinstance(node, ast.Yield) for node in ast.walk(statement))


def choices_of(action: Callable) -> tuple[str, ...]:
    """The names of an action's choices: `yield (d,), ..` is of one choice, d. Where they are no names, none."""
    source = definition(module_of(action), action.__code__)[0] if has_source(action) else ast.Pass()
    for node in ast.walk(source):
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and node.value.elts \
                and isinstance(node.value.elts[0], ast.Tuple):
            names = [part.id if isinstance(part, ast.Name) else "" for part in node.value.elts[0].elts]
            return tuple(names) if all(names) else ()
    return ()


def helpers_of(functions: list[Callable]) -> dict[str, str]:
    """Name and source of the functions that these use, of the same module or of highwater.model.parts, and so on for those."""
    sources, waiting = {}, list(functions)
    for function in waiting:  # grows while we walk it
        for node in ast.walk(definition(function.__module__, function.__code__)[0]):
            named = function.__globals__.get(node.id) if isinstance(node, ast.Name) else None
            if is_helper(named, function) and named not in waiting:
                sources[named.__name__] = inspect.getsource(named)
                waiting.append(named)
    return sources


def is_helper(named: Any, function: Callable) -> TypeGuard[FunctionType]:
    """Whether a reader of `function` needs the source of what it names: a function beside it, or one that all models share."""
    return inspect.isfunction(named) and named.__module__ in (getattr(function, "__module__", ""), parts.__name__)


def notes(record: type) -> dict[str, str]:
    """The comment of each field of a NamedTuple, "" where there is none. An indented comment line below continues it."""
    try:
        lines = inspect.getsource(record).splitlines()
    except (OSError, TypeError):  # it was not written, but made
        lines = []
    said, field = dict.fromkeys(record._fields, ""), ""
    for line in lines:
        if match := re.match(r"    (\w+):[^#]*(?:#(.*))?", line):
            field = match[1]
            said[field] = (match[2] or "").strip()
        elif said.get(field) and (match := re.match(r"    # {2,}(.*)", line)):
            said[field] += f" {match[1].strip()}"
    return said


def sections(record: type) -> dict[str, str]:
    """The comment line above the fields of a NamedTuple that each field stands under, "" above the first."""
    section, found = "", {}
    for line in inspect.getsource(record).splitlines():
        if match := re.match(r"    # (\w.*)", line):
            section = match[1]
        elif match := re.match(r"    (\w+):", line):
            found[match[1]] = section
    return found
