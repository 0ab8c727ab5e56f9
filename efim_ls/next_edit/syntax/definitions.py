"""Definitions whose parameters were changed, by the syntax tree around a change, and lists between parentheses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

from tree_sitter import Node

from efim_ls.languages.forms.language import CallForm, Grammar
from efim_ls.languages.table import LANGUAGES
from efim_ls.next_edit.changes import LineChange
from efim_ls.next_edit.syntax.pieces import Piece, piece_at
from efim_ls.text.document import Document, narrowed
from efim_ls.text.lines import enclosing_line, line_start

LONGEST = 2000  # characters between two parentheses
OPENING, CLOSING = "([{", ")]}"
NAME = re.compile(
    r"(?:(?:mut|ref|public|private|protected|readonly|override)\s+)*(?P<star>\*{0,2}|\.{3})(?P<name>[^\W\d]\w*)"
    r"(?P<optional>\?)?"
)
RECEIVERS = re.compile(r"(?:self|cls)$|this\s*:|(?:&\s*(?:'\w+\s+)?)?(?:mut\s+)?self\b")
LAST_NAME = re.compile(r"(?P<name>\$?[^\W\d]\w*)(?:\s*\[\s*\])*(?P<optional>\s*=.*)?\Z", re.DOTALL)  # behind its type
KEYWORD_ONLY = re.compile(r"(?P<name>[^\W\d]\w*):(?!:)\s*(?P<optional>\S.*)?", re.DOTALL)
HEAD = re.compile(r"\b(?:def|fn|func|function|constructor)\b|=>|\)[^()]*\{\s*$")
CLASS = re.compile(
    r"([^\S\r\n]*)(?:(?:export|default|abstract|final|private|protected|public|sealed|static) +)*class +(\w+)"
)
_MEMBERS = ("pair", "public_field_definition")
_CONSTRUCTORS = ("__init__", "constructor")

Called = Literal["plainly", "as member", "by path", "as class", "with new", "in module"]


class Item(NamedTuple):
    """What stands between two commas without the blanks around it, and where."""

    text: str
    start: int
    end: int


class Items(NamedTuple):
    """The items of a list, and where it ends: the offset of the closing parenthesis."""

    items: Sequence[Item]
    end: int


class Parameter(NamedTuple):
    """A parameter: its name, or all of it if it has none, and how it may be passed."""

    name: str
    optional: bool
    variadic: bool
    by_keyword: bool  # only

    @property
    def is_named(self) -> bool:
        """Whether it can be passed on by its name."""
        return not self.variadic and self.name.isidentifier() and self.name != "_"


def items(text: str, start: int, language: str, types: bool = False) -> Items | None:
    """Split a list at its commas, from the offset behind its opening parenthesis; None if it does not end soon.

    With `types`, a comma between angle brackets separates nothing.
    """
    pattern = _scanned(LANGUAGES[language].calls.skipped)
    opened, angles, begins = 0, 0, start
    found = list[Item]()
    for each in pattern.finditer(text, start, start + LONGEST):
        mark, at = each[0], each.start()
        if mark in OPENING:
            opened += 1
        elif mark in CLOSING and opened:
            opened -= 1
        elif types and mark in "<>":
            angles += 1 if mark == "<" else -1
        elif (mark == "," or mark in CLOSING) and not opened and not angles:
            if item := _item(text, begins, at):
                found.append(item)
            begins = at + 1
        if mark in CLOSING and begins == at + 1:
            return Items(found, at)
    return None


def parameters(text: str, start: int, language: str) -> Sequence[Parameter] | None:
    """Return the parameters of a definition, without its receiver, from behind the opening parenthesis."""
    listed = items(text, start, language, types=True)
    if listed is None:
        return None
    form, found, by_keyword = LANGUAGES[language].calls, list[Parameter](), False
    for number, item in enumerate(listed.items):
        if item.text in ("*", "/") or (number == 0 and RECEIVERS.match(item.text)):
            by_keyword = by_keyword or item.text == "*"
            continue
        found.append(parameter(item.text, form, by_keyword))
        by_keyword = by_keyword or (found[-1].variadic and form.by_keyword)
    return found


def keyword(item: Item, language: str) -> str:
    """Return the name by which an argument is passed; empty if it has none."""
    form = LANGUAGES[language].calls
    mark = form.keyword_mark
    found = re.match(rf"([^\W\d]\w*)\s*{mark}(?!{mark})", item.text) if form.by_keyword else None
    return found[1] if found else ""


def parameter(text: str, form: CallForm, by_keyword: bool) -> Parameter:
    """Return the parameter of a text; `by_keyword`: it can be passed by its keyword alone."""
    if form.names_last:
        last = LAST_NAME.search(text)
        return Parameter(last["name"] if last else text, bool(last and last["optional"]), "..." in text, by_keyword)
    if form.by_keyword and form.keyword_mark == ":" and (only := KEYWORD_ONLY.match(text)):
        return Parameter(only["name"], bool(only["optional"]), False, True)
    named = NAME.match(text)
    variadic = bool(named and named["star"]) or bool(re.search(r"\s\.{3}", text))
    optional = bool(named and named["optional"]) or re.search(r"(?<![=!<>])=(?![=>])", text) is not None
    return Parameter(named["name"] if named else text, optional, variadic, by_keyword)


def _item(text: str, start: int, end: int) -> Item | None:
    piece = text[start:end]
    begins = start + len(piece) - len(piece.lstrip())
    return Item(piece.strip(), begins, start + len(piece.rstrip())) if piece.strip() else None


@cache
def _scanned(skipped: str) -> re.Pattern[str]:
    """Return a pattern for skipped text, for arrows, which close nothing, and for brackets and commas."""
    return re.compile(rf"{skipped}|[=-]>|[(\[{{)\]}}<>,]")


class ChangedDefinition(NamedTuple):
    """A function whose parameters, between two offsets, were changed, and how it is called, and where.

    `owner` is the type whose function it is, if that is known, or the module that its calls name.
    """

    name: str
    called: Called
    owner: str
    start: int
    end: int
    visible: tuple[int, int]
    before: Sequence[Parameter]
    after: Sequence[Parameter]

    @property
    def calls(self) -> re.Pattern[str]:
        """An expression for what comes before the arguments of its calls."""
        name = re.escape(self.name)
        behind = {
            "plainly": rf"(?<![\w.$]{name})(?<!::{name})",
            "as member": rf"(?<=\.{name})",
            "by path": rf"(?:(?<=Self::{name})|(?<=(?<!\w){self.owner}::{name}))",
            "as class": rf"(?<!\w{name})",
            "with new": rf"(?<=new {name})",
            "in module": rf"(?<=(?<![\w.]){re.escape(self.owner)}{name})",
        }
        return re.compile(rf"{name}{behind[self.called]}(?:(?:::)?<[^<>()\n]*>)?\(")

    @property
    def imported(self) -> str:
        """The name that other files import to call it; empty if that is only its package's."""
        return self.name if self.called == "plainly" else self.owner

    def elsewhere(self, text: str, module: str) -> ChangedDefinition:
        """Return the definition as another file calls it: by its name alone, or behind a module's and a mark."""
        called, owner = self.called, self.owner
        if called in ("plainly", "as class"):
            called, owner = ("in module", module) if module else ("plainly", "")
        return self._replace(called=called, owner=owner, start=-len(self.name), end=0, visible=(0, len(text)))

    def anywhere(self, text: str) -> ChangedDefinition:
        """Return the definition as a file may call it that imports it in any way."""
        return self.elsewhere(text, "")._replace(called="as class")


def changed_definition(document: Document, change: LineChange) -> ChangedDefinition | None:
    """Return the definition whose parameters a line's change begins in, None if there is none."""
    start, end, _ = enclosing_line(document.text, change.start)
    before = "".join((*change.change.left, *change.change.removed, *change.change.right))
    at = narrowed(start, before, document.text[start:end]).at
    nodes = LANGUAGES[document.language].grammar
    if nodes is None or not _may_hold_parameters(document.text, start, at, end):
        return None
    piece = piece_at(document, at)
    node = piece.node(at) if piece else None
    while node is not None and not (
        (parent := node.parent)
        and parent.type in nodes.functions
        and parent.child_by_field_name("parameters") == node
    ):
        node = parent
    if piece is None or node is None or node.parent is None:
        return None
    opened, closed = piece.offset(node.start_byte), piece.offset(node.end_byte)
    if not opened < at < closed or document.text[opened] != "(":
        return None
    old = _line_before(document.text, opened + 1, (start, end), before)
    lists = parameters(old, 0, document.language), parameters(document.text, opened + 1, document.language)
    called = _called(document, piece, node.parent, nodes)
    if called is None or lists[0] is None or lists[1] is None:
        return None
    around = _ancestor(node.parent, nodes.functions)
    visible = (piece.offset(around.start_byte), piece.offset(around.end_byte)) if around else (0, len(document.text))
    return ChangedDefinition(*called, opened, closed, visible, lists[0], lists[1])


def _may_hold_parameters(text: str, start: int, at: int, end: int) -> bool:
    """Return whether a line may belong to a definition, or to one of its parameters, before parsing."""
    if "(" in text[start:at]:
        return HEAD.search(text, start, end) is not None
    return text[start:end].rstrip().endswith(",") or text[end : end + LONGEST].lstrip().startswith(")")


def _line_before(text: str, opened: int, line: tuple[int, int], before: str) -> str:
    """Return the text behind an opening parenthesis before a line of the text was changed."""
    start, end = line
    head = text[opened:start] + before if opened < start else before[opened - start :]
    return head + text[end : end + LONGEST]


def _called(document: Document, piece: Piece, function: Node, nodes: Grammar) -> tuple[str, Called, str] | None:
    """Return the name by which a function is called, what comes before it, and the type whose it is."""
    named = function.child_by_field_name("name") or _declared(function)
    if named is None:
        return None
    name = document.text[piece.offset(named.start_byte) : piece.offset(named.end_byte)]
    if name in _CONSTRUCTORS:
        around = _class_around(document.text, piece.offset(function.start_byte))
        return (around, "as class" if name == "__init__" else "with new", around) if around else None
    form = LANGUAGES[document.language].calls
    if not form.by_path:
        if not _is_method(function, nodes, form.in_classes):
            return name, "plainly", ""
        return name, "as member", _class_around(document.text, piece.offset(function.start_byte))
    block = _ancestor(function, nodes.classes)
    owner = block.child_by_field_name("type") or block.child_by_field_name("name") if block else None
    found = re.match(r"\w+", owner.text.decode("utf-8", "replace")) if owner and owner.text else None
    called = "as member" if _has_self(function) else "by path" if found else "plainly"
    return name, called, found[0] if found else ""


def _declared(function: Node) -> Node | None:
    """Return the name that a function without one is given."""
    parent = function.parent
    if parent is None or parent.type not in ("variable_declarator", *_MEMBERS):
        return None
    return parent.child_by_field_name("key" if parent.type == "pair" else "name")


def _is_method(function: Node, nodes: Grammar, in_classes: bool) -> bool:
    if function.type in ("method_declaration", "method_definition") or _has_self(function):
        return True
    if function.parent is not None and function.parent.type in _MEMBERS:
        return True
    around = _ancestor(function, nodes.classes | nodes.functions) if in_classes else None
    return around is not None and around.type in nodes.classes


def _ancestor(node: Node, types: frozenset[str]) -> Node | None:
    """Return the innermost node around another that is of one of these types."""
    around = node.parent
    while around is not None and around.type not in types:
        around = around.parent
    return around


def _has_self(function: Node) -> bool:
    listed = function.child_by_field_name("parameters")
    first = listed.named_children[0] if listed and listed.named_children else None
    return first is not None and (first.type == "self_parameter" or first.text in (b"self", b"cls"))


def _class_around(text: str, at: int) -> str:
    """Return the name of the class that is the nearest above an offset and indented less; empty if there is none."""
    line = text[line_start(text, at) : at + 1]
    indent = len(line) - len(line.lstrip())
    while (at := text.rfind("class ", 0, at)) >= 0:
        found = CLASS.match(text, line_start(text, at))
        if found and len(found[1]) < indent:
            return found[2]
    return ""
