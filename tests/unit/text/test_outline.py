"""Definitions and imports, read off syntax trees."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.languages.forms.language import Import
from efim_ls.text import outline as module
from efim_ls.text.outline import Definition, Outline, outline

PYTHON = """
import a.b as c, d
from ..x import y as z, w
from . import *
LIMIT: int = 1
first = second = 2
@decorator(1)
async def fetch(a, *,
                b: int = 3) -> str:
    inner = 1
    def local(): pass
class Client(Base, metaclass=M):
    timeout = 1
    def get(self): pass
    class Options: pass
if TYPE_CHECKING:
    def checked(): pass
else:
    import e
"""
SCRIPT = """
import {a, b as c} from "./x"; import * as q from 'y'; import "side";
export default class Foo<T> extends Bar { private x: number = 1; get y(): string { return "" } }
export interface I { a: string; m(): void }
export type U = A | B;
export const k = 1, fn = (a) => { const local = 1 };
namespace N { export function inner() {} }
export {e} from "./z";
"""
GO = """
package main
import ("fmt"; x "a/b")
const A, B = 1, 2
type T struct { F int }
type I interface { M() }
func (t *T) M(a int) error { return nil }
"""
RUST = """
use std::{a::B,
  c};
mod m { pub fn inner() {} }
pub struct S<T> { a: T }
impl<T> Tr for S<T> { fn f(&self) { let local = 1; } }
macro_rules! mm { () => {} }
"""
JAVA = """
package a.b;
import java.util.*;
import static a.b.C.max;
import a.b.C;
public class X<T> extends Y {
    private final int a = 1, b;
    enum E { ONE, TWO(3); int f; }
    record R(int x) {}
    interface I { void m(int a); int K = 1; }
    X(int q) { int local = q; }
    <U> List<U> n(U u) throws E { return null; }
}
"""
C = """
#ifndef A_H
#define A_H
#include <stdio.h>
#include "a/b.h"
#define SIZE 1
#define MAX(a, b) ((a) > (b))
typedef struct row { int x, *y; } Row;
enum e { ONE };
struct later;
int shown(const char *path, ...);
static char *f(char n[]) { int local; }
int counted;
#endif
"""
CPP = """
namespace a { class Later; }
template <typename T> class V : public W {
    T t;
    void m();
    int n() const { return 1; }
};
using U = V<int>;
int V::k() const { return 1; }
"""
RUBY = """
require 'a/b'
require_relative "c"
module M
  class A::B < C
    K = 1
    def self.m(a, b: 1)
      x = a
    end
    private def o?; end
    class << self
      def n; end
    end
  end
end
"""
PHP = """<?php
namespace A\\B;
use A\\B\\C;
use A\\{D, E as F};
use function A\\f;
use G;
const K = 1;
abstract class X extends Y { use T; const L = 1; public ?int $p = 1; public function m(int $a) { $local = 1; } }
interface I { public function n(); }
trait T {}
enum S: string { case One = 'a'; }
function f(&$a) {}
"""
SHELL = """
. ./lib.sh
source "$dir/x.sh"
A=1
readonly R=3
f() { local x=$1; y=2; }
function g { :; }
"""


def names(text: str, language: str) -> list[tuple[str, str]]:
    return [(each.name, each.kind) for each in outline(text, language).definitions]


def test_python() -> None:
    assert names(PYTHON, "python") == [
        ("LIMIT", "variable"), ("first", "variable"), ("second", "variable"), ("fetch", "function"),
        ("Client", "class"), ("timeout", "variable"), ("get", "method"), ("Options", "class"),
        ("checked", "function"),
    ]  # fmt: skip
    definitions, imports = outline(PYTHON, "python")
    assert definitions[3] == Definition("fetch", "function", 7, "async def fetch(a, *, b: int = 3) -> str")
    assert imports == (
        Import("a.b", ()), Import("d", ()), Import("..x", ("y", "w")), Import(".", ("*",)), Import("e", ()),
    )  # fmt: skip


@pytest.mark.parametrize("language", ["typescript", "typescriptreact"])
def test_typescript(language: str) -> None:
    assert names(SCRIPT, language) == [
        ("Foo", "class"), ("x", "field"), ("y", "method"), ("I", "interface"), ("a", "field"), ("m", "method"),
        ("U", "type"), ("k", "variable"), ("fn", "variable"), ("N", "module"), ("inner", "function"),
    ]  # fmt: skip
    definitions, imports = outline(SCRIPT, language)
    assert definitions[0] == Definition("Foo", "class", 2, "class Foo<T> extends Bar")
    assert imports == (
        Import("./x", ("a", "b")), Import("y", ()), Import("side", ()), Import("./z", ("e",)),
    )  # fmt: skip


def test_javascript() -> None:
    assert names("const f = 1\nclass A { m() {} }\n", "javascript") == [
        ("f", "variable"), ("A", "class"), ("m", "method"),
    ]  # fmt: skip


def test_go() -> None:
    assert names(GO, "go") == [
        ("A", "constant"), ("B", "constant"), ("T", "type"), ("F", "field"), ("I", "type"), ("M", "method"),
        ("M", "method"),
    ]  # fmt: skip
    assert outline(GO, "go").imports == (Import("fmt", ()), Import("a/b", ()))


def test_rust() -> None:
    assert names(RUST, "rust") == [
        ("m", "module"), ("inner", "function"), ("S", "struct"), ("a", "field"), ("f", "method"), ("mm", "macro"),
    ]  # fmt: skip
    assert outline(RUST, "rust").imports == (Import("std::{a::B, c}", ()),)


def test_java() -> None:
    assert names(JAVA, "java") == [
        ("X", "class"), ("a", "field"), ("b", "field"), ("E", "enum"), ("ONE", "constant"), ("TWO", "constant"),
        ("f", "field"), ("R", "class"), ("I", "interface"), ("m", "method"), ("K", "constant"), ("X", "method"),
        ("n", "method"),
    ]  # fmt: skip
    definitions, imports = outline(JAVA, "java")
    assert definitions[-1] == Definition("n", "method", 11, "<U> List<U> n(U u) throws E")
    assert imports == (Import("java.util", ("*",)), Import("a.b.C", ("max",)), Import("a.b", ("C",)))


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_c(language: str) -> None:
    assert names(C, language) == [
        ("SIZE", "constant"), ("MAX", "macro"), ("Row", "type"), ("row", "struct"), ("x", "field"), ("y", "field"),
        ("e", "enum"), ("ONE", "constant"), ("shown", "function"), ("f", "function"),
    ]  # fmt: skip
    definitions, imports = outline(C, language)
    assert definitions[-1] == Definition("f", "function", 11, "static char *f(char n[])")
    assert imports == (Import("stdio.h", ()), Import("a/b.h", ()))


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_headers_of_cpp_are_read_as_c_too(language: str) -> None:
    assert names(CPP, language) == [
        ("a", "module"), ("V", "class"), ("t", "field"), ("m", "field"), ("n", "method"), ("U", "type"),
        ("k", "function"),
    ]  # fmt: skip


def test_ruby() -> None:
    assert names(RUBY, "ruby") == [
        ("M", "class"), ("B", "class"), ("K", "constant"), ("m", "method"), ("o?", "method"), ("n", "method"),
    ]  # fmt: skip
    definitions, imports = outline(RUBY, "ruby")
    assert definitions[3] == Definition("m", "method", 6, "def self.m(a, b: 1)")
    assert imports == (Import("a/b", ()), Import("./c", ()))


def test_php() -> None:
    assert names(PHP, "php") == [
        ("K", "constant"), ("X", "class"), ("L", "constant"), ("p", "field"), ("m", "method"), ("I", "interface"),
        ("n", "method"), ("T", "class"), ("S", "enum"), ("One", "constant"), ("f", "function"),
    ]  # fmt: skip
    modules = [("A\\B\\", "C"), ("A\\", "D"), ("A\\", "E"), ("\\", "G")]
    assert outline(PHP, "php").imports == tuple(Import(module, (name,)) for module, name in modules)


def test_shell() -> None:
    assert names(SHELL, "shellscript") == [
        ("A", "variable"), ("R", "variable"), ("f", "function"), ("g", "function"),
    ]  # fmt: skip
    assert outline(SHELL, "shellscript").imports == (Import("./lib.sh", ()), Import("$dir/x.sh", ()))


def test_a_language_without_a_grammar_has_no_outline() -> None:
    assert outline("def f(): pass", "cobol") == Outline()


def test_broken_code_gives_what_is_recognized() -> None:
    text = "def whole(): pass\nx = = 1\nclass Later:\n    def method(self): return )\n\ndef half("
    assert [name for name, _ in names(text, "python")] == ["whole", "x", "Later"]


def of_ast(path: Path) -> list[tuple[str, int]]:
    """Functions and classes outside functions, as Python's own parser finds them."""
    found, waiting = list[tuple[str, int]](), list[ast.AST]([ast.parse(path.read_text("utf-8"))])
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append((node.name, node.lineno - 1))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.expr)):
            waiting += ast.iter_child_nodes(node)
    return sorted(found)


def test_it_finds_what_pythons_own_parser_finds() -> None:
    """In asyncio, whole and in pieces; loops and matches hold no definitions there."""
    paths = sorted(Path(asyncio.__file__).parent.glob("*.py"))
    assert any(len(path.read_text("utf-8")) > 3 * module.PARSED_AT_ONCE for path in paths)
    for path in paths:
        definitions = outline(path.read_text("utf-8"), "python").definitions
        found = [(each.name, each.line) for each in definitions if each.kind in ("function", "method", "class")]
        assert sorted(found) == of_ast(path), path.name


def test_line_ends_of_windows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARSED_AT_ONCE", 40)
    assert outline(PYTHON.replace("\n", "\r\n"), "python") == outline(PYTHON, "python")


def test_a_long_file_is_parsed_in_pieces() -> None:
    text = "def f():\n    pass\n\n\n" * 4000
    pieces = list(module._pieces(text))  # pyright: ignore[reportPrivateUsage]
    assert "".join(pieces) == text and max(map(len, pieces)) < 1.1 * module.PARSED_AT_ONCE
    assert [each.line for each in outline(text, "python").definitions] == list(range(0, 16000, 4))


def test_deep_nesting_does_not_overflow() -> None:
    assert outline("(" * 20000, "python").definitions == ()
    assert outline("class A:\n" + "if x:\n" * 5000, "python")


@settings(max_examples=300)
@given(st.text(), st.sampled_from(["python", "javascript", "typescript", "typescriptreact", "go", "rust"]))
def test_no_text_is_too_strange(text: str, language: str) -> None:
    outline(text, language)
    outline(PYTHON[: len(text)] + text + SCRIPT[len(text) :] + "\ud800", language)


@pytest.mark.parametrize(
    ("language", "text", "signature"),
    [
        ("python", "def f(\n    a,  # first (\n    # second\n    b=1,\n):\n    c\n", "def f( a, b=1, )"),
        ("typescript", "function f(a, // first {\n  b = 1) {}", "function f(a, b = 1)"),
        ("go", "package m\nfunc f(a int, // first\n\tb int) {}\n", "func f(a int, b int)"),
    ],
)
def test_comments_between_parameters_hide_none_of_them(language: str, text: str, signature: str) -> None:
    assert [each.signature for each in outline(text, language).definitions] == [signature]
