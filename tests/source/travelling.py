"""Finds parameters that functions of the product only pass on; `python -m tests.source.travelling` prints their ways.

A function only passes a parameter on if it reads it nowhere but as an argument of calls of the product's functions.
What a call calls is told from names, imports and annotations; where these do not say, the way ends.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("efim_ls", "model_runtime", "kv_store", "efim_lab", "editor_clients")
MOST = 3  # functions that a parameter may pass through
CANCEL = "cancel"  # told to all that may take long

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Parameter(NamedTuple):
    """A parameter of a function, which is named with its module and class."""

    function: str
    name: str


class Scope(NamedTuple):
    """What names mean in a function: its module, the class that it is a method of, the types of its values."""

    module: str
    owner: str | None
    types: dict[str, str]


class Product:
    """The functions of the product, and where each passes its parameters on to."""

    def __init__(self, sources: dict[str, str]) -> None:
        """Read `sources`: the text of each module, by its dotted name."""
        self._functions: dict[str, Function] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._names: dict[str, dict[str, str]] = {}  # of each module: what a name at its top means
        for module, text in sources.items():
            self._read(module, ast.parse(text))

    def ways(self) -> list[list[Parameter]]:
        """Return the longest way of each parameter that starts one through more than MOST functions."""
        reached = {each for targets in self._passed.values() for each in targets}
        starts = [each for each in self._passed if each not in reached and each.name != CANCEL]
        ways = [self._longest(each, frozenset()) for each in starts]
        return sorted(way for way in ways if len(way) > MOST)

    def _longest(self, start: Parameter, seen: frozenset[Parameter]) -> list[Parameter]:
        ahead = [each for each in self._passed.get(start, ()) if each in self._passed and each not in seen | {start}]
        ways = [self._longest(each, seen | {start}) for each in sorted(ahead)]
        return [start, *max(ways, key=len, default=[])]

    @cached_property
    def _passed(self) -> dict[Parameter, set[Parameter]]:
        """Each parameter that is only passed on, with what receives it."""
        found = dict[Parameter, set[Parameter]]()
        for name, function in self._functions.items():
            scope = self._scope(name, function)
            for argument in _named(function):
                if targets := self._receivers(argument.arg, function, scope):
                    found[Parameter(name, argument.arg)] = targets
        return found

    def _receivers(self, name: str, function: Function, scope: Scope) -> set[Parameter]:
        """Return the parameters that receive `name`, or nothing if the function also does something else with it."""
        found, passed = set[Parameter](), 0
        for node in _inside(function):
            if isinstance(node, ast.Call):
                for position, value in _arguments(node):
                    if isinstance(value, ast.Name) and value.id == name:
                        passed += 1
                        received = self._parameter(node, position, scope)
                        if received is None:
                            return set()
                        found.add(received)
        used = sum(isinstance(node, ast.Name) and node.id == name for node in _inside(function))
        return found if used == passed else set()

    def _parameter(self, call: ast.Call, position: int | str, scope: Scope) -> Parameter | None:
        """Return the parameter that receives what a call passes at `position` or by that name."""
        target = self._called(call.func, scope)
        if target is None:
            return None
        function = self._functions[target]
        if isinstance(position, str):
            return Parameter(target, position) if position in {each.arg for each in _named(function)} else None
        arguments = [*function.args.posonlyargs, *function.args.args]
        position += bool(arguments) and arguments[0].arg in ("self", "cls")
        return Parameter(target, arguments[position].arg) if position < len(arguments) else None

    def _called(self, function: ast.expr, scope: Scope) -> str | None:
        """Return the function of the product that is called, or None where that cannot be told."""
        named = self._named_by(function, scope)
        if named in self._classes:
            return self._method(named, "__init__")
        if named in self._functions:
            return named
        if isinstance(function, ast.Attribute) and (owner := self._type(function.value, scope)) is not None:
            return self._method(owner, function.attr)
        return None

    def _named_by(self, node: ast.expr, scope: Scope) -> str | None:
        """Return what a name means, or `module.name`, or `Class.name`."""
        return self._meaning(node.id, scope) if isinstance(node, ast.Name) else self._dotted(node, scope)

    def _dotted(self, node: ast.expr, scope: Scope) -> str | None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in scope.types:
            above = self._meaning(node.value.id, scope)
            found = above and (self._method(above, node.attr) if above in self._classes else f"{above}.{node.attr}")
            return found if found in self._functions or found in self._classes else None
        return None

    def _type(self, node: ast.expr, scope: Scope) -> str | None:
        """Return the class of the product that a value is of."""
        if isinstance(node, ast.Name):
            return scope.types.get(node.id)
        if isinstance(node, ast.Attribute) and (owner := self._type(node.value, scope)) is not None:
            return self._attribute(owner, node.attr)
        if isinstance(node, ast.Call):
            if scope.owner is not None and ast.unparse(node) == "super()":
                return next(self._bases(scope.owner), None)
            return self._made(node.func, scope)
        return None

    def _made(self, function: ast.expr, scope: Scope) -> str | None:
        """Return the class of what a call returns."""
        if (called := self._named_by(function, scope)) in self._classes:
            return called
        named = self._called(function, scope)
        return named and self._annotated(self._functions[named].returns, self._home(named).module)

    def _attribute(self, owner: str, name: str) -> str | None:
        """Return the class of an attribute: annotated, or set in `__init__` to a parameter or to a new object."""
        module = owner.rpartition(".")[0]
        for node in self._classes[owner].body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
                return self._annotated(node.annotation, module)
        if (getter := self._functions.get(f"{owner}.{name}")) is not None:
            return (
                self._annotated(getter.returns, module)
                if "property" in map(ast.unparse, getter.decorator_list)
                else None
            )
        if (made := self._functions.get(f"{owner}.__init__")) is not None:
            for target, annotation, value in _assigned(made):
                if ast.unparse(target) == f"self.{name}":
                    scope = self._scope(f"{owner}.__init__", made)
                    return self._annotated(annotation, module) if annotation else value and self._type(value, scope)
        above = (self._attribute(base, name) for base in self._bases(owner))
        return next((each for each in above if each), None)

    def _method(self, owner: str, name: str) -> str | None:
        """Return a method of a class or of what it derives from; of a protocol, that of the one class that has it."""
        if any(ast.unparse(base) == "Protocol" for base in self._classes[owner].bases):
            having = [each for each in self._functions if each.endswith(f".{name}") and self._fulfils(each, owner)]
            return having[0] if len(having) == 1 else None
        found = f"{owner}.{name}"
        if found in self._functions:
            return found
        above = (self._method(base, name) for base in self._bases(owner))
        return next((each for each in above if each), None)

    def _fulfils(self, method: str, protocol: str) -> bool:
        """Return whether a method is of another class that has all methods of a protocol."""
        owner = method.rpartition(".")[0]
        if owner == protocol or owner not in self._classes:
            return False
        methods = [each.name for each in self._classes[protocol].body if isinstance(each, ast.FunctionDef)]
        return all(f"{owner}.{each}" in self._functions for each in methods)

    def _bases(self, owner: str) -> Iterator[str]:
        names = self._names[owner.rpartition(".")[0]]
        for base in self._classes[owner].bases:
            if (named := names.get(ast.unparse(base))) in self._classes:
                yield named

    def _annotated(self, annotation: ast.expr | None, module: str) -> str | None:
        """Return the one class of the product in an annotation, which may be `Class | None` or quoted."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if isinstance(annotation, ast.BinOp) and ast.unparse(annotation.right) == "None":
            annotation = annotation.left
        named = self._names[module].get(annotation.id) if isinstance(annotation, ast.Name) else None
        return named if named in self._classes else None

    def _home(self, name: str) -> Scope:
        above = name.rpartition(".")[0]
        return Scope(above.rpartition(".")[0], above, {}) if above in self._classes else Scope(above, None, {})

    def _scope(self, name: str, function: Function) -> Scope:
        module, owner, _ = self._home(name)
        types = {"self": owner, "cls": owner} if owner else {}
        types |= {each.arg: found for each in _named(function) if (found := self._annotated(each.annotation, module))}
        for target, annotation, value in _assigned(function):
            if isinstance(target, ast.Name):
                known = Scope(module, owner, types)
                found = self._annotated(annotation, module) if annotation else value and self._type(value, known)
                types |= {target.id: found} if found else {}
        return Scope(module, owner, types)

    def _meaning(self, name: str, scope: Scope) -> str | None:
        return None if name in scope.types else self._names[scope.module].get(name)

    def _read(self, module: str, tree: ast.Module) -> None:
        names = self._names[module] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names[node.name] = f"{module}.{node.name}"
                self._functions[f"{module}.{node.name}"] = node
            elif isinstance(node, ast.ClassDef):
                names[node.name] = owner = f"{module}.{node.name}"
                self._classes[owner] = node
                for each in node.body:
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                        self._functions[f"{owner}.{each.name}"] = each


def _named(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _inside(function: Function) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)


def _assigned(function: Function) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """Yield what a function assigns to, with its annotation and its value."""
    for node in _inside(function):
        if isinstance(node, ast.AnnAssign):
            yield node.target, node.annotation, node.value
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from ((each, None, its) for each, its in zip(target.elts, value.elts, strict=False))
            else:
                yield target, None, value


def _arguments(call: ast.Call) -> Iterator[tuple[int | str, ast.expr]]:
    """Yield what a call passes, each with its position, or with its name."""
    if not any(isinstance(each, ast.Starred) for each in call.args):
        yield from enumerate(call.args)
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)


def product() -> Product:
    """Return the product as it is in this clone."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return Product({_module_name(path): path.read_text("utf-8") for path in paths})


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def shown(way: Sequence[Parameter]) -> str:
    """Return a way as a line of text: the parameter, then the functions that pass it on."""
    return f"{way[0].name}: " + " -> ".join(each.function for each in way)


if __name__ == "__main__":
    sys.stdout.writelines(f"{shown(way)}\n" for way in product().ways())
