"""What a document's text refers to: the modules that it imports, and what may stand at a place in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from efim_ls.request import Expected, Names
from efim_ls.workspace.modules.names import Modules, Target

REACH = 600  # characters before a place in which brackets are looked for that it stands in
LONGEST = 200  # characters of a dotted name
NAME = r"[^\W\d]\w*"
DOTTED = rf"{NAME}(?:\.{NAME})*"
IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+(?P<module>\.*{DOTTED})[ \t]+import[ \t]*"
    r"(?:\((?P<listed>[^()]*)\)?|(?P<names>(?:[^\n\\;#]|\\\r?\n)*))"
    r"|import[ \t]+(?P<modules>(?:[^\n\\;#]|\\\r?\n)*))",
    re.MULTILINE,
)
COMMENT = re.compile(r"#[^\n]*")
EXPRESSION = re.compile(rf"(?<![\w.])({NAME})((?:\.{NAME})*)")
IN_MODULE = re.compile(rf"[ \t]*(?:from[ \t]+|import[ \t]+(?:[^\n#;]*,[ \t]*)?)((?:{NAME}\.)*)(\w*)$")
IN_NAMES = re.compile(rf"[ \t]*from[ \t]+({DOTTED})[ \t]+import[ \t]+(?:[^\n()#;]*,[ \t]*)?(\w*)$")
IN_LISTED = re.compile(rf"[ \t]*from[ \t]+({DOTTED})[ \t]+import[ \t]*\((?:[^()]*[,\s])?(\w*)$")
ATTRIBUTE = re.compile(rf"(?<![\w.)\]}}\"'])({DOTTED})\.(\w*)$")
ARGUMENT = re.compile(r"(?<![\w.])(\w*)$")
CALLED = re.compile(rf"(?<!\bdef )(?<!\bclass )(?<![\w.)\]}}\"'])({DOTTED})$")
# What binds names other than by an import: definitions and parameters, loops, patterns, assignments, annotations.
BINDING = re.compile(
    rf"\b(?:def|lambda)\b(?P<parameters>[^\n]*)|\bfor\b(?P<names>[^\n:]*?)\bin\b"
    rf"|^[ \t]*(?P<targets>{NAME}(?:[ \t]*,[ \t]*{NAME})*)[ \t]*(?:=(?!=)|:(?![=\s]*$))"
    rf"|(?:\b(?:class|with\b[^\n]*\bas|except\b[^\n]*\bas|case)[ \t]+|(?=\w+[ \t]*:=))(?P<bound>{NAME})",
    re.MULTILINE,
)
PARAMETER = re.compile(rf"(?:^|[(,*])[ \t]*({NAME})[ \t]*(?=[:=,()]|$)")
WORD = re.compile(NAME)
GIVEN = re.compile(rf"\s*({NAME})\s*=(?!=)")  # an argument with its keyword
# Brackets and commas, and what these in are text: strings and comments.
PARTS = re.compile(
    r'''[][(){},]|\#[^\n]*|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL,
)


class CallAtCursor(NamedTuple):
    """The callee of the innermost open brackets, the letters of the argument at the cursor, keywords before it."""

    callee: str
    stub: str
    given: frozenset[str]


@dataclass(frozen=True)
class Imports:
    """The modules that a text imports, and what its imports bind: a module and a name in it, or the module alone.

    Names that the text binds in other ways as well are left out, since nobody knows which one is meant.
    """

    modules: frozenset[str]
    bound: Mapping[str, tuple[str, str]]


class DocumentImports:
    """The imports of one document, read again only when lines other than the one at the cursor have changed."""

    def __init__(self) -> None:
        self._above = self._below = "\0"
        self._imports = Imports(frozenset(), {})

    def at(self, text: str, cursor: int) -> Imports:
        """Return the imports of the lines above the cursor's and below it."""
        start, end = text.rfind("\n", 0, cursor) + 1, text.find("\n", cursor)
        below = len(text) - end if end >= 0 else 0
        if (start, below) != (len(self._above), len(self._below)) or not (
            text.startswith(self._above) and text.endswith(self._below)
        ):
            self._above, self._below = text[:start], text[len(text) - below :]
            self._imports = imports_of(f"{self._above}{self._below}")
        return self._imports


def imports_of(text: str) -> Imports:
    """Return the imports of a text."""
    modules, found = set[str](), dict[str, set[tuple[str, str]]]()
    for each in IMPORT.finditer(text):
        if (module := each["module"]) is None:
            for module, name in _listed(each["modules"]):
                modules.add(module)
                source = (module, "") if name else (module.partition(".")[0], "")
                found.setdefault(name or source[0], set()).add(source)
        elif not module.startswith("."):
            modules.add(module)
            for original, name in _listed(each["listed"] or each["names"] or ""):
                found.setdefault(name or original, set()).add((module, original))
    rebound = _rebound(text) if found else set[str]()
    bound = {name: each.pop() for name, each in found.items() if len(each) == 1 and name not in rebound}
    return Imports(frozenset(modules), bound)


def _listed(names: str) -> Iterator[tuple[str, str]]:
    """Yield each name in a list of imports, and its alias, empty without one."""
    for each in COMMENT.sub("", names).replace("\\", " ").split(","):
        original, _, name = each.strip().partition(" as ")
        if re.fullmatch(DOTTED, original := original.strip()):
            yield original, name.strip()


def _rebound(text: str) -> set[str]:
    """Return the names that a text seems to bind other than by an import."""
    found = set[str]()
    for each in BINDING.finditer(text):
        if each["parameters"] is not None:
            found.update(PARAMETER.findall(each["parameters"]))
        else:
            found.update(WORD.findall(each["names"] or each["targets"] or each["bound"]))
    return found


def expressions(text: str, imports: Imports) -> Iterator[tuple[Target, list[str]]]:
    """Yield what a text imports and takes from that: where each begins, and the path of attributes from there."""
    for module in sorted(imports.modules):
        first, *path = module.split(".")
        yield Target(first), path
    chains = {(each[1], each[2]) for each in EXPRESSION.finditer(text) if each[1] in imports.bound}
    for name, chain in sorted({*chains, *((name, "") for name in imports.bound)}):
        start, path = _binding(imports.bound[name])
        yield start, [*path, *chain.split(".")[1:]]


def expected(before: str, imports: Imports, modules: Modules, top_level: Names) -> Expected | None:
    """Return what code before a place expects there, None if that is anything or unknown."""
    before = before[-REACH:]
    line = before[before.rfind("\n") + 1 :]
    if found := IN_MODULE.match(line):
        package = found[1].rstrip(".")
        names = modules.submodules(package) if package else top_level
        return _expected("module", found[2], names, Target(package))
    if found := IN_NAMES.match(line) or IN_LISTED.match(before, before.rfind("\n", 0, before.rfind("(") + 1) + 1):
        target = Target(found[1])
        return _expected("name", found[2], modules.attributes(target), target)
    if found := ATTRIBUTE.search(line, max(0, len(line) - LONGEST)):
        target = _target(found[1], imports, modules)
        return _expected("attribute", found[2], modules.attributes(target), target) if target else None
    if called := called_at(before):
        target = _target(called.callee, imports, modules)
        names = modules.keywords(target) if target else None
        return _expected("keyword", called.stub, names.without(called.given), target) if target and names else None
    return None


def _expected(
    kind: Literal["module", "name", "attribute", "keyword"], stub: str, names: Names | None, owner: Target
) -> Expected | None:
    return Expected(kind, stub, names, ".".join(filter(None, owner))) if names else None


def _binding(source: tuple[str, str]) -> tuple[Target, list[str]]:
    """Return where what an import binds begins, and the path from it."""
    module, name = source
    return Target(module), [name] if name else []


def _target(dotted: str, imports: Imports, modules: Modules) -> Target | None:
    """Return what a dotted expression refers to, None unless it begins with an imported name."""
    first, *path = dotted.split(".")
    source = imports.bound.get(first)
    if source is None:
        return None
    start, begun = _binding(source)
    return modules.follow(start, [*begun, *path])


def called_at(before: str) -> CallAtCursor | None:
    """Return the call that a text ends in, None if no argument begins there or another expression is called."""
    argument = ARGUMENT.search(before, max(0, len(before) - LONGEST))
    if argument is None or before[: argument.start()].rstrip()[-1:] not in ("(", ","):
        return None
    opened = list[list[int]]()  # for each open bracket, where its elements begin
    for part in PARTS.finditer(before, before.find("\n") + 1 if len(before) == REACH else 0):
        if part[0] in "([{":
            opened.append([part.end()])
        elif part[0] in ")]}" and opened:
            opened.pop()
        elif part[0] == "," and opened:
            opened[-1].append(part.end())
    if not opened or before[(bracket := opened[-1][0] - 1)] != "(":
        return None
    called = CALLED.search(before, max(0, bracket - LONGEST), bracket)
    given = frozenset(each[1] for start in opened[-1] if (each := GIVEN.match(before, start)))
    return CallAtCursor(called[1], argument[1], given) if called else None
