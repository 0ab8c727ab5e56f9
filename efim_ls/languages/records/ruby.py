"""Ruby."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    CallForm,
    Grammar,
    Import,
    Language,
    LanguageWords,
    TextOf,
    WordBlocks,
    split,
)

_KEYWORDS = """
    BEGIN END __FILE__ __LINE__ __dir__ __method__ alias and attr_accessor attr_reader attr_writer begin
    block_given? break case class def defined? do else elsif end ensure extend false fail for if in include lambda
    loop module module_function next nil not or prepend private proc protected public raise redo require
    require_relative rescue retry return self super then true undef unless until when while yield
"""
_NAMES = """
    ArgumentError Array BasicObject Class Comparable Dir ENV Enumerable Errno Exception File Float Hash IO IOError
    IndexError Integer Kernel KeyError Method Module NameError NoMethodError NotImplementedError Numeric Object Proc
    Process Random Range RangeError Rational Regexp RuntimeError STDERR STDIN STDOUT Set StandardError StopIteration
    String Struct Symbol Thread Time TypeError ZeroDivisionError
"""


def _named(node: Node) -> Iterator[Node]:
    """Yield the name of what begins with a keyword, and of an assigned constant."""
    named = node.child_by_field_name("left" if node.type == "assignment" else "name")
    while named is not None and named.type == "scope_resolution":
        named = named.child_by_field_name("name")
    if named is not None and (node.type != "assignment" or named.type == "constant"):
        yield named


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    """Yield what a file requires; a module next to the file begins with a point, as in Python."""
    said = text(node.child_by_field_name("arguments")).strip("()\"' ")
    method = text(node.child_by_field_name("method"))
    if method == "require":
        yield Import(said, ())
    elif method == "require_relative":
        yield Import(said if said.startswith(".") else f"./{said}", ())


# `end` closes what these words open where they begin a statement: behind one, they are its condition. The head of a
# loop may have a `do`, and a method that is assigned has no end.
_WORDS = r"""
    (?: (?m:^) | [;=|&] ) [ \t]* (?P<opens> if | unless | case | begin | class | module )\b (?![?!:=])
    | (?: (?m:^) | ; ) [ \t]* (?P<loops> while | until | for )\b [^\n;#]*
    | (?<![\w.:@$]) (?P<defines> def )[ \t] (?! [ \t]* [\w.]+[?!]? (?: \([^()\n]*\) )? [ \t]+=[ \t] )
    | (?<![\w.:@$]) (?P<iterates> do )\b (?![?!:=(\w])
    | (?<![\w.:@$]) (?P<closes> end )\b (?![?!:=(\w])
"""
# Regular expressions, lists of words, strings with other quotes, and comments of several lines.
_SKIPPED = r"""
    (?<=[\s(,=~!|\[{]) / (?![\s=]) (?: \\. | \[ (?: \\. | [^\]\\\n] )* \] | [^/\\\n\[] )* /
    | %[rwWiIqQ] (?:
        \{ [^{}]* \} | \[ [^][]* \] | \( [^()]* \) | / (?: \\. | [^/\\] )* / | ! (?: \\. | [^!\\] )* !
        | \| [^|\n]* \| | ' [^'\n]* ' )
    | (?ms:^=begin\b.*?^=end\b)
"""


# Blocks end with words. There are no `imports`: what one file requires, all others have, and many programs require by
# names. So nobody can say of a word that it stands nowhere, either.
RUBY = Language(
    "ruby",
    "Ruby",
    ".gemspec .rake .rb gemfile podfile rakefile vagrantfile",
    also="enh-ruby",
    wheel="efim_ls_more",
    telling=r"^\s*(def [\w.?!]+(\(.*\))?|end|(module|class) [A-Z]\w*( < .*)?)$"
    r"|^\s*require(_relative)? ['\"]|\bdo \|",
    is_code=True,
    comment="#",
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _NAMES),
        new_name=re.compile(r"\b(?:alias|class|def(?:\s+self\.)?|module)\s*\Z"),
    ),
    grammar=Grammar(
        "tree_sitter_ruby:language",
        kinds={
            "assignment": "constant", "class": "class", "method": "function", "module": "class",
            "singleton_method": "function",
        },
        named=_named,
        entered=frozenset({
            "argument_list", "body_statement", "call", "class", "module", "program", "singleton_class",
        }),
        imports=frozenset({"call"}),
        imported=_imported,
        functions=frozenset({"block", "do_block", "lambda", "method", "singleton_method"}),
        classes=frozenset({"class", "module", "singleton_class"}),
        binding=frozenset({("assignment", "left"), ("rescue", "variable"), ("for", "pattern")}),
    ),
    skipped=_SKIPPED,
    here_document=re.compile(r"<<[-~]?[\"'`]?(?P<end>[A-Z_]\w*)"),
    word_blocks=WordBlocks(
        _WORDS,
        dict.fromkeys(split("begin case class def do for if module unless until while"), "end"),
        clauses=re.compile(r"[ \t]*(?:else|elsif|ensure|in|rescue|when)\b"),
    ),
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:(?:module_function|private|private_class_method|protected|public)\s+)?"
        r"def\s+(?P<owner>(?:self|[A-Z][\w:]*)\.)?(?P<name>\w+(?:[?!]|=(?=\())?)"
    ),
    calls=CallForm(
        skipped=r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|#[^\n]*",
        by_keyword=True,
        keyword_mark=":",
        in_classes=True,
    ),
)  # fmt: skip
LANGUAGES = (RUBY,)
