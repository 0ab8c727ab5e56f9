"""Java."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from efim_ls.languages.forms.language import (
    CallForm,
    Grammar,
    Import,
    ImportForm,
    Language,
    LanguageWords,
    TextOf,
    declared,
    split,
    within,
)  # fmt: skip

_KEYWORDS = """
    abstract assert boolean break byte case catch char class const continue default do double else enum extends
    false final finally float for goto if implements import instanceof int interface long native new null package
    permits private protected public record return sealed short static strictfp super switch synchronized this
    throw throws transient true try var void volatile while yield
"""
# What needs no import: names of the package java.lang.
_BUILT_IN = """
    AbstractMethodError Appendable ArithmeticException ArrayIndexOutOfBoundsException ArrayStoreException
    AssertionError AutoCloseable Boolean Byte CharSequence Character Class ClassCastException ClassLoader
    ClassNotFoundException CloneNotSupportedException Cloneable Comparable Deprecated Double Enum Error Exception
    ExceptionInInitializerError Float FunctionalInterface IllegalArgumentException IllegalMonitorStateException
    IllegalStateException IndexOutOfBoundsException InheritableThreadLocal InstantiationException Integer
    InterruptedException Iterable LinkageError Long Math Module NegativeArraySizeException NoClassDefFoundError
    NoSuchFieldException NoSuchMethodException NullPointerException Number NumberFormatException Object
    OutOfMemoryError Override Package Process ProcessBuilder Readable Record ReflectiveOperationException Runnable
    Runtime RuntimeException SafeVarargs SecurityException SecurityManager Short StackOverflowError
    StackTraceElement StrictMath String StringBuffer StringBuilder StringIndexOutOfBoundsException SuppressWarnings
    System Thread ThreadGroup ThreadLocal Throwable UnsupportedOperationException Void
"""


def _imported(node: Node, text: TextOf) -> Iterator[Import]:
    for path in node.named_children:
        if path.type == "scoped_identifier":
            if within(node, ("asterisk",)):
                yield Import(text(path), ("*",))
            else:
                yield Import(text(path.child_by_field_name("scope")), (text(path.child_by_field_name("name")),))


JAVA = Language(
    "java",
    "Java",
    ".java",
    wheel="efim_ls_more",
    telling=r"^\s*(public|private|protected) .*[;{]$|^import (static )?[\w.]+(\.\*)?;$|^package [\w.]+;$"
    r"|^\s*@(Override|Test)\b|^\s*(final )?[A-Z]\w*(<.*>)?(\[\])? \w+ = .*;$",
    is_code=True,
    declares_members=True,
    single_quotes="characters",
    words=LanguageWords(
        keywords=split(_KEYWORDS),
        known=split(_KEYWORDS + _BUILT_IN),
        built_in=split(_BUILT_IN),
        new_name=re.compile(r"\b(?:class|enum|@?interface|record)\s+\Z"),
    ),
    grammar=Grammar(
        "tree_sitter_java:language",
        kinds={
            "annotation_type_declaration": "interface", "annotation_type_element_declaration": "method",
            "class_declaration": "class", "constant_declaration": "constant", "constructor_declaration": "method",
            "enum_constant": "constant", "enum_declaration": "enum", "field_declaration": "field",
            "interface_declaration": "interface", "method_declaration": "method", "record_declaration": "class",
        },
        named=declared,
        entered=frozenset({
            "annotation_type_body", "annotation_type_declaration", "class_body", "class_declaration", "enum_body",
            "enum_body_declarations", "enum_declaration", "interface_body", "interface_declaration", "program",
            "record_declaration",
        }),
        imports=frozenset({"import_declaration"}),
        imported=_imported,
        functions=frozenset({"constructor_declaration", "lambda_expression", "method_declaration"}),
        classes=frozenset({"class_declaration", "enum_declaration", "interface_declaration", "record_declaration"}),
        binding=frozenset({
            ("catch_formal_parameter", "name"), ("enhanced_for_statement", "name"), ("formal_parameter", "name"),
            ("instanceof_expression", "name"), ("resource", "name"), ("variable_declarator", "name"),
        }),
    ),
    # Methods may be overloaded.
    definition=re.compile(
        r"(?P<indent>[ \t]*)(?:(?:abstract|final|private|protected|public|sealed|static|strictfp)\s+)*"
        r"(?:class|enum|@?interface|record)\s+(?P<name>\w+)"
    ),
    imports=ImportForm(
        re.compile(
            r"^import[ \t]+(?:static[ \t]+)?(?P<module>\w+(?:\.\w+)*)\.(?:\w+|\*)[ \t]*;",
            re.MULTILINE,
        ),
        lambda module, name, _: f"import {module}.{name};",
        "package names",
    ),
    calls=CallForm(names_last=True),
)  # fmt: skip
LANGUAGES = (JAVA,)
