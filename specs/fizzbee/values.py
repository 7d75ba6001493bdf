"""Bring FizzBee's values, from its JSON and from what it prints, and Python's to one canonical form; write FizzBee's literals.

A canonical state is `(globals, roles)`: globals are `((name, value), ...)` sorted by name, roles are
`((ref_string, ((field, value), ...)), ...)` sorted by role and number, parameters left out. Values, as FizzBee's JSON has them:

    FizzBee                          JSON                          here
    None, bool, int, string, enum    null, true, 1, "a"            None, True, 1, "a"
    tuple, list, range               array                         tuple
    set, bag                         array, sorted as JSON TEXT    tuple, in that order: {2, 9, 10} is (10, 2, 9)
    dict                             object, keys as strings       ((key, value), ...) sorted; "1" and "(1, 2)" parsed
    record, struct                   object                        ((field, value), ...) sorted
    role                             "role Writer#0"               the same string

So a list, a tuple and a set of the same elements are indistinguishable, as they are to FizzBee itself, whose identity of
states is this text. `canonical` brings plain Python values, frozensets and named tuples to the same form. A set's elements
are never sets, lists, dicts or records (FizzBee: unhashable); structs are.
"""

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

from highwater.specs.fizzbee.errors import FizzError

Value = Any  # None | bool | int | float | str | tuple of Values
Label = tuple[str, str, tuple[tuple[str, Value], ...]]  # role instance or "", action, choices
State = tuple[tuple[tuple[str, Value], ...], tuple[tuple[str, tuple[tuple[str, Value], ...]], ...]]


def order(value: Value) -> tuple:
    """Return a sort key that orders all canonical values: None, bool, number, string, tuple."""
    if isinstance(value, tuple):
        return (4, tuple(order(part) for part in value))
    if isinstance(value, str):
        return (3, value)
    return (0,) if value is None else (1, value) if isinstance(value, bool) else (2, value)


def pairs(items: Iterable[tuple[Value, Value]]) -> tuple[tuple[Value, Value], ...]:
    return tuple(sorted(items, key=order))


def json_text(value: Any) -> str:
    """Return a Python value as FizzBee's JSON has it: the text by which FizzBee sorts sets."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        items = sorted((str(k), v) for k, v in value.items())
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "[" + ",".join(sorted((json_text(v) for v in value), key=str.encode)) + "]"
    if isinstance(value, (tuple, list, range)):
        return "[" + ",".join(json_text(v) for v in value) + "]"
    text = json.dumps(value, ensure_ascii=False)
    for char in "<>&\u2028\u2029":  # as Go's encoder does
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def canonical(value: Any) -> Value:
    """Return a plain Python value, for example a model's, in the form of the values in `graph`."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return pairs((canonical(k), canonical(v)) for k, v in value.items())
    if isinstance(value, (set, frozenset)):
        return tuple(canonical(v) for v in sorted(value, key=lambda v: json_text(v).encode()))
    if isinstance(value, (tuple, list, range)):
        return tuple(canonical(v) for v in value)
    return value


def key_value(text: str) -> Value:
    """Return a dict's key from its string: ints, tuples, None, bools are parsed, so the string "1" cannot be told from 1."""
    if re.fullmatch(r"-?\d+|\(.*\)|None|True|False", text, re.DOTALL):
        try:
            return canonical(ast.literal_eval(text))
        except (ValueError, SyntaxError):
            pass
    return text


def decoded(value: Any) -> Value:
    """Return FizzBee's JSON as a canonical value."""
    if isinstance(value, list):
        return tuple(decoded(v) for v in value)
    if isinstance(value, dict):
        return pairs((key_value(k), decoded(v)) for k, v in value.items())
    return value


def printed(text: str) -> Value:
    """Return the canonical value of a text in a link's name, such as `(1, "a")` or `set([1])`; else the text."""
    role = re.match(r"role \w+#\d+", text)
    if role:
        return role[0]

    def value(node: ast.expr | None) -> Any:
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(value(part) for part in node.elts)
        if isinstance(node, ast.Dict):
            return {value(k): value(v) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "bag"):
            return frozenset(map(value, elements(node.args[0]))) if node.args else frozenset()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("struct", "record"):
            return {keyword.arg: value(keyword.value) for keyword in node.keywords}
        if node is None:
            raise ValueError("`**` in a dict")
        return ast.literal_eval(node)

    def elements(node: ast.expr) -> list[ast.expr]:
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return node.elts
        raise ValueError("not written as its elements")

    try:
        return canonical(value(ast.parse(text, mode="eval").body))
    except (ValueError, SyntaxError, AttributeError, TypeError):
        return text


def literal(value: Any) -> str:
    """Return a Python value as FizzBee source. FizzBee prints it the same, except sets of several elements."""
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (set, frozenset)):
        return f"set([{', '.join(sorted(literal(v) for v in value))}])"
    if isinstance(value, list):
        return f"[{', '.join(literal(v) for v in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(literal(v) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    raise FizzError(f"no FizzBee literal for {value!r}")


def link_names(label: Label) -> list[str]:
    """Return the lines of a guided trace for an edge of the graph. Choices keep the order in which the action makes them."""
    role, action, choices = label
    return [f"{role}.{action}" if role else action,
            *(f"Stmt:{v}" if name == "oneof" else f"Any:{name}={literal(v)}" for name, v in choices)]
