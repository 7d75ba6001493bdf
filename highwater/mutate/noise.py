"""Find constants whose change is no bug: a limit of 99 attempts instead of 100, and how JSON is written."""

import ast
from collections.abc import Iterator

LIMITS = ("attempts", "capacity", "limit", "page_size")  # names of limits end so; a large one may be one more or less
LARGE = 10
SPELLING = ("sort_keys", "separators")  # arguments of json.dumps that change no value


def noise_in(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield (line, column) of constants whose change is no bug: large limits, as defaults or at the top of a module, and how
    JSON is written."""
    named: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(tree):
        match node:
            case ast.arguments(posonlyargs=first, args=args, kwonlyargs=only, defaults=defaults, kw_defaults=more):
                positional = [*first, *args]
                with_default = positional[len(positional) - len(defaults):]
                named += [(each.arg, value) for each, value in (*zip(with_default, defaults), *zip(only, more))]
            case ast.Call() if is_dumps(node):
                yield from (place for each in node.keywords if each.arg in SPELLING for place in constants_in(each.value))
            case _:
                pass
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.append((node.targets[0].id.lower(), node.value))
    for name, value in named:
        if name.endswith(LIMITS) and isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value >= LARGE:
            yield value.lineno, value.col_offset


def constants_in(tree: ast.AST) -> Iterator[tuple[int, int]]:
    return ((node.lineno, node.col_offset) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def is_dumps(node: ast.Call) -> bool:
    """Return whether this is `json.dumps(..)` or `json.JSONEncoder(..)`, however it was imported."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    return name in ("dump", "dumps", "JSONEncoder")
