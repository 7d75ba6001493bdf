"""Safety: none; it says why a function of a model let nothing pass: the first test that was false, and its operands.

The function's source is taken and walked on the arguments; the models know nothing of it, and stay plain generators.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

LONGEST = 400  # characters of one value


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


def why_not(function: Callable, *arguments: Any, observed: tuple | None = None) -> str:
    """The first test, loop or result of a function that let nothing pass, and what its operands were. Of the turns of a
    loop the one whose choice was `observed` is preferred."""
    source, seen = inspect.getsource(inspect.getmodule(function)), inspect.getclosurevars(function).nonlocals
    found = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.Lambda))
                 and node.lineno == function.__code__.co_firstlineno)
    body = [ast.Return(found.body)] if isinstance(found, ast.Lambda) else found.body
    scope = {**function.__globals__, **seen, **inspect.signature(function).bind(*arguments).arguments}
    refusals = list(refused(body, scope, ()))
    if not refusals:
        return f"more than its tests say ({function.__module__.replace('.', '/')}.py:{found.lineno})"
    _, node, wanted, scope = next((r for r in refusals if r[0] == observed), refusals[0])
    while isinstance(node, (ast.UnaryOp, ast.BoolOp)):  # down to the conjunct that is false
        if isinstance(node, ast.UnaryOp):
            node, wanted = node.operand, not wanted
        elif isinstance(node.op, ast.And) != wanted:
            break
        else:
            node = next(part for part in node.values if bool(value_of(part, scope)) != wanted)
    text = f"{'not ' * (not wanted)}{' '.join(ast.get_source_segment(source, node).split())}"
    text += f" ({function.__module__.replace('.', '/')}.py:{node.lineno})"
    if wanted and isinstance(node, ast.Call) and not node.keywords and inspect.isfunction(value_of(node.func, scope)):
        return f"{text}, which needs {why_not(value_of(node.func, scope), *[value_of(part, scope) for part in node.args])}"
    operands, compared = [], [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    for part in operands_of(node):
        of_event, value = {n.id for n in ast.walk(part) if isinstance(n, ast.Name)} <= set(seen), value_of(part, scope)
        if part in compared or not (isinstance(part, ast.Name) and hasattr(value, "_fields")):  # not the whole of s or w
            operands.append(f"{'observed ' * of_event}{ast.get_source_segment(source, part)} is {show(value)}")
    return f"{text}: {', '.join(dict.fromkeys(operands))}"


def value_of(node: ast.expr, scope: dict) -> Any:
    return eval(compile(ast.Expression(node), "<guard>", "eval"), scope)


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
                exec(f"{ast.unparse(statement.target)} = _turn", scope)
                yield from refused(statement.body, scope, (*turn, scope["_turn"]))
        elif isinstance(statement, ast.Return):
            if statement.value and not value_of(statement.value, scope):
                yield turn, statement.value, True, dict(scope)
            return
        elif not isinstance(statement, ast.Expr):  # a docstring, or a yield that is not reached
            exec(compile(ast.Module([statement], []), "<guard>", "exec"), scope)


def operands_of(node: ast.AST) -> Iterator[ast.expr]:
    """The parts of an expression whose values tell a reader something."""
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.IfExp, ast.Name, ast.Call, ast.SetComp)):
        yield node
    within = [] if isinstance(node, (ast.Attribute, ast.Subscript, ast.IfExp)) else \
        node.args if isinstance(node, ast.Call) else \
        [part.iter for part in node.generators] if isinstance(node, (ast.GeneratorExp, ast.SetComp, ast.ListComp)) else \
        ast.iter_child_nodes(node)
    for part in within:
        yield from operands_of(part)
