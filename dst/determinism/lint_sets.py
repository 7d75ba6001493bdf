"""Tell dst/determinism/lint.py which expressions are sets, as far as syntax and annotations show."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SET_METHODS = ("union", "intersection", "difference", "symmetric_difference")
SET_TYPES = ("set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet")


def of_set_type(annotation: ast.AST | None) -> bool:
    """Tell whether an annotation is set[...], frozenset[...], or a union that contains one."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return of_set_type(annotation.left) or of_set_type(annotation.right)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return isinstance(annotation, ast.Name) and annotation.id in SET_TYPES


def annotated(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the attributes of this file's classes with their annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from ((of.target.id, of.annotation) for of in node.body
                        if isinstance(of, ast.AnnAssign) and isinstance(of.target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target.attr, node.annotation


class Whole(NamedTuple):
    """The annotations of all files: of attributes, and of what functions return. They are gathered once, because that takes a
    walk of every file."""

    attributes: list[tuple[str, ast.AST]]
    functions: set[str]  # that return a set wherever they are defined

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> "Whole":
        trees, functions = list(trees), (ast.FunctionDef, ast.AsyncFunctionDef)
        defined = [node for tree in trees for node in ast.walk(tree) if isinstance(node, functions)]
        return cls([pair for tree in trees for pair in annotated(tree)],
                   {node.name for node in defined if of_set_type(node.returns)} - {
                       node.name for node in defined if not of_set_type(node.returns)})


class Sets:
    """The sets of one file: attributes, functions and names.

    An attribute counts if it is annotated as a set here, or elsewhere and nowhere as something else. A function counts if its
    return annotation is a set. Names are found for each function."""

    def __init__(self, tree: ast.Module, whole: Whole):
        own = list(annotated(tree))
        others = {name for name, annotation in whole.attributes if not of_set_type(annotation)}
        here = {name for name, annotation in own if not of_set_type(annotation)}
        self.attributes = {name for name, annotation in whole.attributes if of_set_type(annotation)} - others | {
            name for name, annotation in own if of_set_type(annotation)} - here
        self.functions = whole.functions

    def holds(self, node: ast.AST, names: set[str]) -> bool:
        """Tell whether an expression is a set, as far as syntax shows."""
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self.holds(node.left, names) or (self.holds(node.right, names) and not isinstance(node.op, ast.Sub))
        if isinstance(node, ast.IfExp):
            return self.holds(node.body, names) or self.holds(node.orelse, names)
        if isinstance(node, ast.NamedExpr):
            return self.holds(node.value, names)
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                return called.id in ("set", "frozenset") or called.id in self.functions
            if isinstance(called, ast.Attribute):
                return called.attr in SET_METHODS or called.attr in self.functions or (
                    called.attr == "copy" and self.holds(called.value, names)) or (
                    called.attr == "fromkeys" and any(self.holds(of, names) for of in node.args[:1]))
        return isinstance(node, ast.DictComp) and any(self.holds(of.iter, names) for of in node.generators)

    def names(self, function: ast.AST, outer: set[str]) -> set[str]:
        """Return the names that hold a set somewhere in a function or module: parameters and assignments."""
        found, arguments = set(outer), getattr(function, "args", None)
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if arguments else ():
            found.discard(argument.arg)
            if of_set_type(argument.annotation):
                found.add(argument.arg)
        for _ in range(2):  # a name may be assigned another name's set
            for node in inside(function):
                if isinstance(node, ast.Assign) and self.holds(node.value, found):
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
                elif isinstance(node, ast.NamedExpr) and self.holds(node.value, found):
                    found.add(node.target.id)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found |= {node.target.id} if of_set_type(node.annotation) else set()
        return found


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module, including functions inside it, but not the nodes inside those."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, SCOPES):
            yield from inside(node)


def name_of(node: ast.AST) -> str:
    """Return a dotted name such as a.b.c; ".c" if the part before is not a name."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{name_of(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
