"""Find what a run of an implementation can execute: the statements, lambdas and generator expressions of its functions.

A unit is named by its file, its function and its first line. What runs only when a module is imported is no unit, and neither
is a body that is a docstring or `...`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

OPTIMIZED = 1  # the flag of a function's code, which the code of modules and classes lacks
OF_THEIR_OWN = ("<lambda>", "<genexpr>")
OF_ITS_STATEMENT = ("<listcomp>", "<setcomp>", "<dictcomp>")


class Unit(NamedTuple):
    file: str
    function: str
    line: int
    text: str  # of its first line


Code = tuple[str, int]  # qualified name and first line of a code object


def units_of(file: str, path: Path) -> dict[Code, dict[int, Unit]]:
    """Return for each code object of a file its lines, with the unit of each."""
    source = path.read_text()
    tree, texts = ast.parse(source), source.splitlines()
    begins, bodies = begins_of(tree), empty_bodies(tree)
    found: dict[Code, dict[int, Unit]] = {}
    for code in codes_of(compile(tree, str(path), "exec")):
        own = code.co_name in OF_THEIR_OWN
        lines: dict[int, Unit] = {}
        for _, _, line in code.co_lines():
            if line is not None and (own or line > first_line(code, tree)) and line not in bodies:
                first = code.co_firstlineno if own else begins.get(line, line)
                lines[line] = Unit(file, function_of(code), first, texts[first - 1].strip())
        if lines:
            found.setdefault((code.co_qualname, code.co_firstlineno), {}).update(lines)
    return found


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions, lambdas and generator expressions in a module's."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & OPTIMIZED and constant.co_name not in OF_ITS_STATEMENT:
                yield constant
            yield from codes_of(constant)


def function_of(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def first_line(code: CodeType, tree: ast.AST) -> int:
    """Return the last line of the head of a function: its body begins below, unless it is on the same line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name and code.co_firstlineno in (
                node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
            return node.body[0].lineno - 1
    return 0


def begins_of(tree: ast.AST) -> dict[int, int]:
    """Return for each line the first line of the innermost statement, or of the head of one, that covers it."""
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            last = node.body[-1].end_lineno if isinstance(node, ast.match_case) else node.end_lineno
            found.update(dict.fromkeys(range(first, (last or first) + 1), first))
    return found


def empty_bodies(tree: ast.AST) -> set[int]:
    """Return the lines of function bodies that do nothing: a docstring, `...`, or both."""
    return {line for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and all(isinstance(of, ast.Expr) and isinstance(of.value, ast.Constant) for of in node.body)
            for of in node.body for line in range(of.lineno, (of.end_lineno or of.lineno) + 1)}
