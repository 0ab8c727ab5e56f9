"""PHP."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms import mixed
from efim_ls.languages.forms.language import (
    CallForm,
    Grammar,
    Import,
    ImportForm,
    Language,
    LanguageWords,
    TextOf,
    WordBlocks,
    declared,
    split,
)  # fmt: skip

_KEYWORDS = """
    abstract and array as bool break callable case catch class clone const continue declare default do echo else
    elseif empty enddeclare endfor endforeach endif endswitch endwhile enum exit extends false final finally float
    fn for foreach function global goto if implements include include_once instanceof insteadof int interface isset
    iterable list match mixed namespace never new null object or parent print private protected public readonly
    require require_once return self static string switch this throw trait true try unset use var void while xor
    yield
"""
_BUILT_IN = """
    ArgumentCountError ArithmeticError ArrayAccess ArrayIterator ArrayObject AssertionError BadFunctionCallException
    BadMethodCallException Closure Countable DateInterval DateTime DateTimeImmutable DateTimeInterface DateTimeZone
    DivisionByZeroError DomainException ErrorException Error Exception Generator InvalidArgumentException Iterator
    IteratorAggregate JsonSerializable LengthException LogicException OutOfBoundsException OutOfRangeException
    OverflowException RangeException ReflectionClass RuntimeException SplObjectStorage Stringable Throwable
    Traversable TypeError UnderflowException UnexpectedValueException UnitEnum ValueError WeakMap stdClass
"""
_WORDS = r"""
    (?m:^) [ \t]* (?:<\?php[ ])? (?P<opens> for | foreach | if | switch | while )\b [^\n{?]* : [ \t]* (?:\?>)? (?m:$)
    | (?<![\w$>:\\]) (?P<closes> endfor | endforeach | endif | endswitch | endwhile )\b
"""
MARK = "\\"  # between the parts of a name


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    """Yield what stands before a class, with the last mark, and its name; functions have another `use`."""
    group = node.child_by_field_name("body")
    outer = "".join(text(each) + MARK for each in node.named_children if each.type == "namespace_name")
    for clause in (group or node).named_children:
        if clause.type == "namespace_use_clause" and clause.children[0].is_named:
            path, _, name = (outer + text(clause.named_children[0])).strip(MARK).rpartition(MARK)
            yield Import(path + MARK, (name,))


PHP = Language(
    "php",
    "PHP",
    ".php",
    wheel="efim_ls_more",
    telling=r"^<\?php|^\s*\$\w+ = |\$this->|^\s*(public|private|protected|static|abstract)\b[\w ?]* (function |\$)"
    r"|\$\w+(->|\[['\"$]| as \$)|^use [A-Z]\w*\\|(=>|\() \$?array\(",
    is_code=True,
    mixed=mixed.PHP,
    skipped=r"\#(?!\[)[^\n]*",  # comments, unlike attributes
    here_document=re.compile(r"<<<[ \t]*[\"']?(?P<end>\w+)"),
    word_blocks=WordBlocks(
        _WORDS,
        {each: f"end{each}" for each in ("for", "foreach", "if", "switch", "while")},
        line="{};",
    ),
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _BUILT_IN),
        built_in=split(_BUILT_IN),
        new_name=re.compile(r"\b(?:class|const|enum|function\s*&?|interface|namespace|trait)\s+&?\Z"),
    ),
    # Without what stands outside of its tags: a part of a file may begin behind the tag that opens it.
    grammar=Grammar(
        "tree_sitter_php:language_php_only",
        kinds={
            "class_declaration": "class", "const_element": "constant", "enum_case": "constant",
            "enum_declaration": "enum", "function_definition": "function", "interface_declaration": "interface",
            "method_declaration": "method", "property_element": "field", "trait_declaration": "class",
        },
        named=declared,
        entered=frozenset({
            "class_declaration", "compound_statement", "const_declaration", "declaration_list", "enum_declaration",
            "enum_declaration_list", "if_statement", "interface_declaration", "namespace_definition", "program",
            "property_declaration", "trait_declaration",
        }),
        imports=frozenset({"namespace_use_declaration"}),
        imported=_imported,
        functions=frozenset({"anonymous_function", "arrow_function", "function_definition", "method_declaration"}),
        classes=frozenset({"class_declaration", "enum_declaration", "interface_declaration", "trait_declaration"}),
    ),
    # A function and a class may have one name.
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:(?:abstract|final|private|protected|public|readonly|static)\s+)*"
        r"(?:(?P<owner>function)\s+&?|(?:class|enum|interface|trait)\s+)(?P<name>\w+)"
    ),
    imports=ImportForm(
        re.compile(r"^use[ \t]+(?P<module>(?:\w+\\)+)\w+(?:[ \t]+as[ \t]+\w+)?[ \t]*;", re.MULTILINE),
        lambda module, name, _: f"use {module.lstrip(MARK)}{name};",
        "package names",
    ),
    calls=CallForm(by_keyword=True, keyword_mark=":", names_last=True),
)  # fmt: skip
LANGUAGES = (PHP,)
