"""Reads which names a module has from its source, without running it: a program that `table.py` starts.

It is run as a file, in an interpreter without site-packages, so it imports the standard library alone. A line of its
input is `[file, module, is_package]` in JSON, a line of its output `[CPU seconds so far, record or null]`. A module
without a file is a compiled one of this interpreter's own library, which can only be imported to be read.

Wherever a module may have names that its source does not show, the record says that it is open.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from efim_ls.request import NameKind

LARGEST = 1 << 20  # bytes of source; parsing takes a hundred times as many
NICENESS = 19  # the least urgent
ANY = "**"  # in a list of parameters: more keywords may be taken than are listed
# Decorators that leave parameters as they are, and the members of a class.
HARMLESS = frozenset({
    "abstractmethod", "asynccontextmanager", "cache", "classmethod", "contextmanager", "dataclass", "deprecated",
    "final", "lru_cache", "overload", "override", "recursive_repr", "runtime_checkable", "set_module",
    "staticmethod", "total_ordering", "unique",
})  # fmt: skip
PROPERTIES = frozenset({"cached_property", "deleter", "getter", "property", "setter"})
HARMLESS_METACLASSES = frozenset({"ABCMeta", "EnumMeta", "EnumType", "_ProtocolMeta", "type"})
# What adds names to a module behind its source's back, and to a class; a name may stand for the module's names.
OF_MODULE = re.compile(r"\b(\w+)\s*=\s*(?:globals|locals|vars)\(\)")
DYNAMIC = r"(?:globals\(\)|locals\(\)|vars\(\){})(?:\[.*\]\s*=(?!=)|\.(?:update|setdefault)\b)"
DYNAMIC_TOO = re.compile(
    r"\bmodules\[__name__\]|^exec\(|\bexec\(.*globals\(\)|(?s:\._convert_\(.{0,200}?\bsource=)", re.MULTILINE
)
DYNAMIC_CLASS = re.compile(r"\bsetattr\((?:self|cls)\b|\b(?:self|cls)\.__dict__\b|\b(?:locals|vars)\(\)")
OF_INSTANCES = re.compile(r"\b(?:self|cls)\.([^\W\d_]\w*)")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class ClassRecord(TypedDict):
    """Members of a class, its bases as dotted names in its module, and parameters: of its methods, and of itself
    unless it inherits them.
    """

    bases: list[str]
    members: dict[str, NameKind]
    methods: dict[str, list[str]]
    parameters: NotRequired[list[str]]
    open: bool


class ModuleRecord(TypedDict):
    """Names of a module; `sources` has the module and name that a name is taken from, the name empty for a module.

    `stars` are the modules that all names are taken from, `all` the names that others take by a star if it is known.
    """

    names: dict[str, NameKind]
    sources: dict[str, tuple[str, str]]
    stars: list[str]
    all: NotRequired[list[str]]
    classes: dict[str, ClassRecord]
    functions: dict[str, list[str]]
    open: bool


def words_of(record: ModuleRecord) -> Iterator[str]:
    """Yield the names in a module, of members of its classes, and of parameters."""
    yield from record["names"]
    for parameters in record["functions"].values():
        yield from parameters
    for each in record["classes"].values():
        yield from each["members"]
        yield from each.get("parameters", ())
        for parameters in each["methods"].values():
            yield from parameters


def read_source(source: bytes, module: str, is_package: bool) -> ModuleRecord:
    """Return the record of a module's source; raises what `ast.parse` raises."""
    tree, text = ast.parse(source), source.decode("utf-8", "replace")
    return _Reader(module, is_package, text).read(tree)


class _Reader:
    """Collects what one module's statements bind."""

    def __init__(self, module: str, is_package: bool, text: str) -> None:
        self._module, self._package = module, module if is_package else module.rpartition(".")[0]
        self._text, self._lines = text, text.split("\n")
        self._record = ModuleRecord(names={}, sources={}, stars=[], classes={}, functions={}, open=_is_dynamic(text))

    def read(self, tree: ast.Module) -> ModuleRecord:
        record = self._record
        for each in _statements(tree.body):
            self._add(each)
        if "global " in self._text:
            for node in ast.walk(tree):
                if isinstance(node, ast.Global):
                    for name in node.names:
                        self._bind(name, "value")
        if (exported := _exported(tree)) is not None:
            record["all"] = exported
            for name in exported:
                self._bind(name, "value")
        # In the standard library, it serves names that are deprecated, and some that `__all__` has.
        is_library = self._module.partition(".")[0] in sys.stdlib_module_names
        record["open"] |= "__getattr__" in record["names"] and not is_library
        record["names"] = {name: kind for name, kind in record["names"].items() if not _is_dunder(name)}
        record["sources"] = {name: each for name, each in record["sources"].items() if not _is_dunder(name)}
        return record

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(node.name, "function")
                parameters = _parameters(node)
                known = self._record["functions"].setdefault(node.name, parameters)
                self._record["functions"][node.name] = list(dict.fromkeys([*known, *parameters]))
            case ast.ClassDef():
                self._bind(node.name, "class")
                self._add_class(node, "")
            case ast.Import(names=names):
                for each in names:
                    name = each.asname or each.name.partition(".")[0]
                    self._bind(name, "module", (each.name if each.asname else name, ""))
            case ast.ImportFrom():
                self._add_import(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)) if name != other:
                self._bind(name, "value", (self._module, other))
            case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), *_])):
                if name in self._record["classes"]:
                    self._record["classes"][name]["open"] = True
            case _:
                for name in _bound(node):
                    self._bind(name, "value")
                for owner, name in _attributes_bound(node):
                    if owner in self._record["classes"]:
                        self._record["classes"][owner]["members"].setdefault(name, "value")

    def _bind(self, name: str, kind: NameKind, source: tuple[str, str] | None = None) -> None:
        """Add a name; of several definitions the first one counts, which is the usual case."""
        if name not in self._record["names"]:
            self._record["names"][name] = kind
            if source:
                self._record["sources"][name] = source

    def _add_import(self, node: ast.ImportFrom) -> None:
        module = self._absolute(node)
        for each in node.names:
            if each.name == "*":
                self._record["stars"].append(module)
            else:
                self._bind(each.asname or each.name, "value", (module, each.name))

    def _absolute(self, node: ast.ImportFrom) -> str:
        package = self._package.split(".")
        above = package[: len(package) - (node.level - 1)] if node.level else []
        return ".".join([*above, *([node.module] if node.module else [])])

    def _add_class(self, node: ast.ClassDef, owner: str) -> None:
        text = "\n".join(self._lines[node.lineno - 1 : node.end_lineno])
        bases = [_dotted(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
        harmless = HARMLESS_METACLASSES | {""}
        found = ClassRecord(
            bases=[base for base in bases if base],
            members={},
            methods={},
            open=DYNAMIC_CLASS.search(text) is not None
            or not all(bases)
            or any(each.arg == "metaclass" and _last(each.value) not in harmless for each in node.keywords)
            or any(_last(each) not in HARMLESS for each in node.decorator_list),
        )
        before = self._record["classes"].setdefault(owner + node.name, found)
        if before is not found:  # defined twice, for systems or versions: either may count
            before["open"] = True
            return
        fields = self._add_members(node, found, owner)
        if "__init__" in found["methods"] or "__new__" in found["methods"]:
            created = [*found["methods"].get("__init__", []), *found["methods"].get("__new__", [])]
            found["parameters"] = list(dict.fromkeys(created))
        elif self._has_fields(node):
            found["parameters"] = [*fields, ANY] if found["bases"] and "NamedTuple" not in bases else fields
        elif node.keywords or any(_last(each) not in HARMLESS for each in node.decorator_list):
            found["parameters"] = [ANY]
        found["open"] |= not found["methods"].keys().isdisjoint({"__getattr__", "__getattribute__"})
        found["methods"] = {name: each for name, each in found["methods"].items() if not name.startswith("_")}
        for name in OF_INSTANCES.findall(text):
            found["members"].setdefault(name, "value")

    def _add_members(self, node: ast.ClassDef, found: ClassRecord, owner: str) -> list[str]:
        """Add what the statements of a class bind; return the names that are annotated."""
        fields, members = list[str](), found["members"]
        for each in _statements(node.body):
            if isinstance(each, ast.ClassDef):
                members.setdefault(each.name, "class")
                self._add_class(each, f"{owner}{node.name}.")
            elif isinstance(each, Function):
                is_value = any(_last(decorator) in PROPERTIES for decorator in each.decorator_list)
                members.setdefault(each.name, "value" if is_value else "function")
                if not is_value:
                    parameters = _parameters(each, is_method=True)
                    known = found["methods"].setdefault(each.name, parameters)
                    found["methods"][each.name] = list(dict.fromkeys([*known, *parameters]))
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                fields.append(each.target.id)
                members.setdefault(each.target.id, "value")
            else:
                members.update(dict.fromkeys(set(_bound(each)) - members.keys(), "value"))
        for name in [name for name in members if name.startswith("_")]:
            del members[name]
        return fields

    def _has_fields(self, node: ast.ClassDef) -> bool:
        """Return whether a class is made with its annotated names as parameters."""
        return any(_last(each) == "dataclass" for each in node.decorator_list) or any(
            _last(base) in ("NamedTuple", "TypedDict") for base in node.bases
        )


def _is_dynamic(text: str) -> bool:
    """Return whether a module's source may bind names that do not stand in it."""
    if "globals()" not in text and "locals()" not in text and "vars()" not in text:
        return DYNAMIC_TOO.search(text) is not None
    aliases = "".join(rf"|\b{name}" for name in dict.fromkeys(OF_MODULE.findall(text)))
    return DYNAMIC_TOO.search(text) is not None or re.search(DYNAMIC.format(aliases), text) is not None


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one scope and of all its branches."""
    for each in body:
        yield each
        if not isinstance(each, DEFINITIONS):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(each, field, ()))
            for branch in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
                yield from _statements(branch.body)


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement other than a definition or an import binds itself."""
    for target in _targets(node):
        if isinstance(target, ast.Name):
            yield target.id


def _attributes_bound(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names whose attributes a statement binds, and the attributes."""
    for target in _targets(node):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            yield target.value.id, target.attr


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            waiting: list[ast.expr] = list(targets)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            waiting = [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            waiting = [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            waiting = [each.optional_vars for each in items if each.optional_vars]
        case ast.Expr(value=ast.NamedExpr(target=target)) | ast.If(test=ast.NamedExpr(target=target)):
            waiting = [target]
        case _ if type(node).__name__ == "TypeAlias":  # since Python 3.12
            waiting = [getattr(node, "name", None) or ast.Name("")]
        case _:
            return
    while waiting:
        target = waiting.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            waiting += target.elts
        elif isinstance(target, ast.Starred):
            waiting.append(target.value)
        else:
            yield target


def _parameters(node: Function, is_method: bool = False) -> list[str]:
    """Return the names that can be passed as keywords; more if a decorator may change them."""
    first = 1 if is_method and all(_last(each) != "staticmethod" for each in node.decorator_list) else 0
    positional = [*node.args.posonlyargs, *node.args.args][first:]
    taken = [each.arg for each in (*positional, *node.args.kwonlyargs) if each not in node.args.posonlyargs]
    known = HARMLESS | PROPERTIES
    is_open = node.args.kwarg is not None or any(_last(each) not in known for each in node.decorator_list)
    return [*taken, ANY] if is_open else taken


def _exported(tree: ast.Module) -> list[str] | None:
    """Return `__all__` if plain lists make it up, None otherwise."""
    found: list[str] | None = None
    for node in _statements(tree.body):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=value)
                | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
            ) if value:
                more = value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"), attr=how), args=[value])):
                more = ast.List([value]) if how == "append" else value
            case _:
                continue
        try:
            found = [*(found or []), *map(str, ast.literal_eval(more))]
        except (TypeError, ValueError):
            return None
    return found


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` as it is written, empty for any other expression."""
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    """Return the last name of a dotted expression, called or subscripted or not."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return _dotted(node).rpartition(".")[2]


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def read_compiled(module: str) -> ModuleRecord | None:
    """Return the record of a compiled module of this interpreter's own library, None for any other module."""
    if module not in sys.stdlib_module_names and module != "builtins":
        return None
    spec = importlib.util.find_spec(module)
    if spec is None or not (spec.origin or "").endswith(("built-in", *importlib.machinery.EXTENSION_SUFFIXES)):
        return None
    found = vars(importlib.import_module(module))
    record = ModuleRecord(names={}, sources={}, stars=[], classes={}, functions={}, open=False)
    for name, value in found.items():
        if _is_dunder(name):
            continue
        if isinstance(value, type):
            members: dict[str, NameKind] = {each: "value" for each in dir(value) if not each.startswith("_")}
            members.update({each: "function" for each in members if callable(getattr(value, each, None))})
            record["classes"][name] = ClassRecord(
                bases=[], members=members, methods={}, parameters=_signature(value), open=False
            )
        elif callable(value):
            record["functions"][name] = _signature(value)
        record["names"][name] = "class" if isinstance(value, type) else "function" if callable(value) else "value"
    return record


def _signature(value: object) -> list[str]:
    """Return the parameters that a compiled function says it has."""
    signature = getattr(value, "__text_signature__", None)
    if not isinstance(signature, str):
        return [ANY]
    try:
        node = ast.parse(f"def f{signature.replace('($', '(')}: pass").body[0]
    except (SyntaxError, ValueError):
        return [ANY]
    return _parameters(node) if isinstance(node, Function) else [ANY]


def read(path: str, module: str, is_package: bool) -> ModuleRecord | None:
    """Return the record of a module, None if it cannot be read."""
    if not path:
        return read_compiled(module)
    with open(path, "rb") as file:
        source = file.read(LARGEST + 1)
    return read_source(source, module, is_package) if len(source) <= LARGEST else None


def main() -> None:
    """Answer each line of the input with one of the output, until the input ends."""
    with suppress(AttributeError, OSError):  # on Windows the parent sets the priority
        os.nice(NICENESS)
    for line in sys.stdin:
        record: ModuleRecord | None = None
        with suppress(Exception):  # whatever is the matter with a module, the next one may be read
            record = read(*json.loads(line))
        print(json.dumps([round(time.process_time(), 4), record], separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
