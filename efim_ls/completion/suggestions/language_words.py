"""What is known of a language's words without a look at any file: its own ones, and where code defines new ones."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from keyword import kwlist, softkwlist

from efim_ls.languages import family_of

_TYPES = (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, property, set, slice, str, tuple, type)
_SCRIPT_KEYWORDS = """
    abstract any as asserts async await bigint boolean break case catch class const constructor continue
    debugger declare default delete do else enum export extends false finally for from function get if
    implements import in infer instanceof interface is keyof let namespace never new null number object of
    override package private protected public readonly require return satisfies set static string super switch
    symbol this throw true try type typeof undefined unique unknown using var void while with yield
"""
_SCRIPT_NAMES = """
    AbortController AbortSignal Array ArrayBuffer Awaited BigInt Blob Boolean Buffer Capitalize DataView Date
    Document Element Error Event EventTarget Exclude Extract File FormData Function Headers HTMLElement Infinity
    InstanceType Int8Array Int32Array Intl Iterable IterableIterator Iterator JSON JSX Map Math NaN Node
    NonNullable Number Object Omit Parameters Partial Pick Promise PromiseLike Proxy Range RangeError React
    ReactNode Readonly ReadonlyArray ReadonlyMap ReadonlySet Record ReferenceError Reflect RegExp Request
    Required Response ReturnType Set String Symbol SyntaxError TextDecoder TextEncoder TypeError URL
    URLSearchParams Uint8Array Uint16Array Uint32Array Uppercase WeakMap WeakRef WeakSet Window Worker __dirname
    __filename afterAll afterEach alert arguments beforeAll beforeEach clearInterval clearTimeout console crypto
    decodeURIComponent describe document encodeURIComponent expect exports fetch global globalThis isFinite
    isNaN it jest localStorage location module navigator parseFloat parseInt performance process props prototype
    queueMicrotask requestAnimationFrame self sessionStorage setImmediate setInterval setTimeout structuredClone
    test vi window
"""
_GO_KEYWORDS = """
    break case chan const continue default defer else fallthrough for func go goto if import interface map
    package range return select struct switch type var
"""
_GO_NAMES = """
    any append bool byte cap clear close comparable complex complex64 complex128 copy delete error false float32
    float64 imag init int int8 int16 int32 int64 iota len main make max min new nil panic print println real
    recover rune string true uint uint8 uint16 uint32 uint64 uintptr
"""


@dataclass(frozen=True)
class LanguageWords:
    """The words of a language. Where these are not listed, nobody can say that a word stands nowhere.

    `new_name` matches to the end of what stands before a name that is defined there, `defines` where any name may be,
    and `defined` what follows a name that is. Members are listed if the names of built-in types' members are `known`.
    """

    keywords: frozenset[str]
    known: frozenset[str]
    new_name: re.Pattern[str]
    defines: re.Pattern[str]
    defined: re.Pattern[str]
    lists_words: bool = True
    lists_members: bool = False


_PYTHON = LanguageWords(
    keywords=frozenset(kwlist),
    known=frozenset(
        {*dir(builtins), *kwlist, *softkwlist, "self", "cls", *(name for each in _TYPES for name in dir(each))}
    ),
    new_name=re.compile(r"\b(?:def|class)\s+\Z"),
    defines=re.compile(r"\b(?:def|class|lambda|for|as|global|nonlocal)\b[^:]*\Z"),
    defined=re.compile(r"\s*(?::|=(?!=)|,[\w\s,]*=(?!=))"),
    lists_members=True,
)
_SCRIPT = LanguageWords(
    keywords=frozenset(_SCRIPT_KEYWORDS.split()),
    known=frozenset((_SCRIPT_KEYWORDS + _SCRIPT_NAMES).split()),
    new_name=re.compile(r"\b(?:class|const|enum|function\s*\*?|interface|let|namespace|type|var)\s+\Z"),
    defines=re.compile(
        r"\b(?:as|catch|class|const|enum|for|function|import|interface|let|namespace|type|var)\b[^=;]*\Z"
    ),
    defined=re.compile(r"\s*(?:\??:|=(?!=)|,[\w\s,]*\)?\s*=|\)?\s*=>|\([^()]*\)[^();]*\{)"),
)
_GO = LanguageWords(
    keywords=frozenset(_GO_KEYWORDS.split()),
    known=frozenset((_GO_KEYWORDS + _GO_NAMES).split()),
    new_name=re.compile(r"\b(?:const|func(?:\s*\([^)]*\))?|package|type|var)\s+\Z"),
    defines=re.compile(r"\b(?:const|for|func|package|type|var)\b[^=]*\Z|\bimport\b"),
    defined=re.compile(r"\s*(?::=|,[\w\s,]*:=|\s[\w.*\[\]]+)"),
)
_UNLISTED = LanguageWords(
    keywords=frozenset(),
    known=frozenset(),
    new_name=re.compile(
        r"\b(?:class|const|def|enum|fn|fun|func|function|interface|let|struct|trait|type|val|var)\s+\Z"
    ),
    defines=re.compile(r"(?!)"),
    defined=re.compile(r"(?!)"),
    lists_words=False,
)
_BY_FAMILY = {"": _PYTHON, "python": _PYTHON, "javascript": _SCRIPT, "go": _GO}


class _ByLanguage(dict[str, LanguageWords]):
    """Words by language, looked up once for each: every key asks several times."""

    def __missing__(self, language: str) -> LanguageWords:
        self[language] = _BY_FAMILY.get(family_of(language), _UNLISTED)
        return self[language]


# What is known of the words of a language, by LSP's name; of a file without one, what is of Python.
LANGUAGE_WORDS: Mapping[str, LanguageWords] = _ByLanguage()
