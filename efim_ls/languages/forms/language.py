"""The record of a language: all that rooms ask when they treat languages apart. The defaults fit most languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tree_sitter import Node

NEVER = re.compile(r"(?!)")
_WORD = re.compile(r"\w+")
# How modules are written: as packages with dots, as paths, as a crate's path, as the path of a package, or as the
# name that files of a package give it themselves.
ModuleNames = Literal["packages", "files", "crates", "package paths", "package names"]


class Import(NamedTuple):
    """What a file imports: a module as it is written, and names from it, if any are written."""

    module: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class LanguageWords:
    """The words of a language. Where these are not listed, nobody can say that a word stands nowhere.

    `new_name` matches to the end of what stands before a name that is defined there, `defines` where any name may be,
    and `defined` what follows a name that is. Members are listed if the names of built-in types' members are `known`.
    """

    keywords: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    built_in: frozenset[str] = frozenset()  # names that nobody imports
    new_name: re.Pattern[str] = re.compile(
        r"\b(?:class|const|def|enum|fn|fun|func|function|interface|let|struct|trait|type|val|var)\s+\Z"
    )
    defines: re.Pattern[str] = NEVER
    defined: re.Pattern[str] = NEVER
    lists_words: bool = False
    lists_members: bool = False


TextOf = Callable[[Node | None], str]


@dataclass(frozen=True)
class Grammar:
    """A tree-sitter grammar, which the function `source` of a module makes, and the meaning of its nodes.

    `kinds` are the kinds of definitions by the type of node, `entered` the types whose children are definitions too.
    `named` yields the names of a definition where these are not in its field `name`.
    """

    source: str
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Callable[[Node], Iterator[Node]] | None = None
    entered: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    imported: Callable[[Node, TextOf], Iterator[Import]] = lambda node, text: iter(())
    functions: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()  # whose functions are methods
    binding: frozenset[tuple[str, str]] = frozenset()  # fields of nodes that bind names

    def binds(self, node_type: str, field_name: str) -> bool:
        """Return whether a field of a node binds the names in it."""
        is_parameter = node_type in self.functions and field_name in ("parameter", "parameters")
        return is_parameter or (node_type, field_name) in self.binding


@dataclass(frozen=True)
class MixedGrammar:
    """How files have parts in several languages: signs begin and end them, and a grammar, which the function `source`
    of a module makes, says which signs do, as strings and comments may hold some.

    `begins` returns the language behind a sign, empty if it is the file's own, and None if the sign begins nothing;
    it reads the sign's leaf in the tree of a text that ends with a sign and `closing`. `first` is the language in
    front of all signs. Any edit that makes, changes or breaks a sign changes what `marks` matches within 16
    characters. `ends` returns a pattern of the end of the part behind a sign, None if the whole file is read there.
    `pieces` matches other parts of a program, with their code as its group, and `joint`, a comment, stands for
    the text between them. The group of `head` is code in front of all signs, and named after its language.
    """

    source: str
    signs: re.Pattern[str]
    marks: re.Pattern[str]
    begins: Callable[[re.Match[str], Node], str | None]
    ends: Callable[[re.Match[str]], re.Pattern[str] | None]
    closing: str = ""
    first: str = ""
    pieces: re.Pattern[str] | None = None
    joint: str = ""
    head: re.Pattern[str] | None = None


@dataclass(frozen=True)
class NameNodes:
    """How a grammar tells that a name is bound where it stands: by types of nodes around it, and by their fields."""

    binding: frozenset[str]
    binding_fields: Mapping[str, str]
    imports: frozenset[str]
    parts_of_imports: frozenset[str]
    wrappers: frozenset[str]
    known: frozenset[str]


@dataclass(frozen=True)
class Indented:
    """How a language makes blocks by indentation.

    `header` is the whole line above a block, and `scope` the shortest one.
    """

    header: re.Pattern[str]
    scope: str
    handlers: frozenset[str]  # nodes of clauses of which a `try` has one
    clauses: frozenset[str]  # nodes of further clauses of the same statement
    tried: str  # the node of a statement that needs a handler


@dataclass(frozen=True)
class WordBlocks:
    """How a language opens and closes blocks with words.

    `words` is a verbose expression that matches a word where it closes a block, in the group `closes`, or where it
    opens one, in a group of another name. `closers` are the closing words by the opening ones, which stand alone
    on their lines as `line` says. `clauses` matches a line below which the block goes on one level deeper.
    """

    words: str
    closers: Mapping[str, str]
    line: str = "{}"
    clauses: re.Pattern[str] = NEVER

    def closes(self, line: str) -> bool:
        """Return whether a line has nothing but a word that closes a block, and closers and signs behind it."""
        return line.strip().rstrip(")]};,") in self.closers.values()

    def goes_on(self, text: str, at: int) -> bool:
        """Return whether a clause of a block, or the word that closes one, begins at an offset."""
        word = _WORD.match(text, at)
        return self.clauses.match(text, at) is not None or (word is not None and word[0] in self.closers.values())


@dataclass(frozen=True)
class ImportForm:
    """How imports are written. `statement` has the groups `module`, or `plain`, and `names`, if any are listed.

    `line` writes one as a separate statement, like the last of the document if it has any. `block` encloses
    statements, where these stand in one.
    """

    statement: re.Pattern[str]
    line: Callable[[str, str, re.Match[str] | None], str]
    modules: ModuleNames
    block: re.Pattern[str] | None = None
    apart: bool = False  # by a blank line, if no other module begins alike
    behind_modules: str = ""  # the mark between a module and its name
    bound: re.Pattern[str] = re.compile(r"[ \t]*(?:=(?![=>])|\??:(?!:))")  # behind a name that is not used but bound


@dataclass(frozen=True)
class CallForm:
    """How calls and parameters are written. `skipped` matches strings and comments between parentheses."""

    skipped: str = r"\"(?:\\.|[^\"\\])*\"|`[^`]*`|'(?:\\[^'\n]+|[^'\\])'|//[^\n]*|/\*[\s\S]*?\*/"
    by_keyword: bool = False
    by_path: bool = False  # whether a type's functions are called as `Type::function`
    in_classes: bool = False  # whether functions within classes are methods, whatever their parameters
    keyword_mark: str = "="  # behind the name of an argument that is passed by keyword
    names_last: bool = False  # whether a parameter's type stands before its name


@dataclass(frozen=True)
class Language:
    """A language, or a dialect of one, by LSP's name in small letters.

    `also` lists further names that editors use, after their modes, in small letters and separated by commas.
    `endings` are endings of files; without a point, their whole names in small letters. `family` names the language
    whose words and phrases its files share, itself if empty. A `dialect_of` another language has that one's fields,
    except name and endings, and is known by all who know that one.
    """

    id: str
    name: str
    endings: str = ""
    also: str = ""
    family: str = ""
    dialect_of: str = ""
    tags: str = ""  # the dialect with tags in it
    wheel: str = ""  # whose model knows the language, if the server brings none that does
    telling: str = ""  # matches lines that a text in this language is likely to have, and one in another is not
    is_prose: bool = False
    is_data: bool = False  # as programs write it: its phrases are nobody's style
    is_code: bool = False  # whether values in assignments are quoted
    comment: Literal["//", "#", "--"] = "//"  # the beginning of a comment that ends with its line
    single_quotes: Literal["strings", "characters"] = "strings"
    triple_quotes: bool = False  # around strings of several lines
    long_quotes: bool = False  # whether any string may have several lines
    skipped: str = ""  # a verbose expression for what else holds no brackets, such as regular expressions
    here_document: re.Pattern[str] | None = None  # begins lines of text; the group `end` is the last one
    closed_types: bool = False  # whether a type's last brace needs a semicolon
    expanded: re.Pattern[bytes] | None = None  # matches names that may stand for any code, as macros do
    outdented: re.Pattern[str] = NEVER  # matches lines that may stand less deep than their block
    words: LanguageWords = LanguageWords()
    grammar: Grammar | None = None
    mixed: MixedGrammar | None = None
    names: NameNodes | None = None
    indented: Indented | None = None
    word_blocks: WordBlocks | None = None
    reads: Callable[[str], bool] | None = None  # a reader stricter than the grammar
    definition: re.Pattern[str] | None = None  # how a line begins that defines a name, the group `name`
    decorator: str = "@"  # begins a line above a definition that says more of it
    declares_members: bool = False  # whether a value has no members but those that its type declares
    imports: ImportForm | None = None
    reads_modules: bool = False  # whether the names of imported modules are read from source
    calls: CallForm = CallForm()


def declared(node: Node) -> Iterator[Node]:
    """Yield the names that a declaration gives: in its field `name`, within declarators as in C, or in front."""
    fields = [*node.children_by_field_name("name"), *node.children_by_field_name("declarator")]
    for each in fields or node.named_children[:1]:
        name: Node | None = each
        while name is not None:
            inner = name.child_by_field_name("declarator") or name.child_by_field_name("name")
            if inner is None and name.type in ("parenthesized_declarator", "reference_declarator", "variable_name"):
                inner = next(iter(name.named_children), None)
            if inner is None:
                yield name
            name = inner


def split(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


def within(node: Node, types: Sequence[str]) -> list[Node]:
    """Return the nodes of some types anywhere in a node, in the order of the text."""
    found, waiting = list[Node](), [node]
    while waiting:
        each = waiting.pop()
        if each.type in types:
            found.append(each)
        else:
            waiting += reversed(each.named_children)
    return found
