"""A header called C's is C++ if its own text or the files beside it tell, wherever it is opened or read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.languages.headers import header_language
from efim_ls.session.documents import OpenDocument
from efim_ls.session.one_shot import read
from efim_ls.usage.counters import Counters

C_LINES = (
    "#include <stdint.h>", '#include "cpu.h"', "struct class *class;", "int new(void);", "typedef struct list list;",
    "static inline int used(int this) { return this; }", "#define public extern", "enum kind { FIRST, SECOND };",
    "#define TEMPLATE(x) x", "extern int private_count;", "void namespace_of(const char *name);", "",
)  # fmt: skip
CPP_LINES = (
    "class Engine {", "class EXPORT(core) Engine final : public Part {", "class Engine;", "enum class Kind : int {",
    "namespace engine {", "inline namespace v1 {", "namespace a::b::c\n{", "namespace {", "template <typename T>",
    "  template<class T>", "std::string name;", "int total(const std::vector<int>& all);", "using namespace std;",
    "using Names = int;", "public:", "  private slots:", "#include <vector>", "# include <cstdint>",
    "class Shape\n    : public Base\n{", "template<> struct hash<int> {", "class alignas(16) Row {",
)  # fmt: skip
HIDING = (
    "// {}", "/* {} */", " * x\n/*\n{}\n*/", 'const char *text = "{}";', "#ifdef __cplusplus\n{}\n#endif",
    "#if defined(__cplusplus)\n{}\n#endif", "#if defined __cplusplus && X\n#ifdef Y\n{}\n#endif\n#endif",
    "#ifndef __cplusplus\nint only_c;\n#else\n{}\n#endif", "#if !defined(__cplusplus)\nint c;\n#else\n{}\n#endif",
    "#ifdef __cplusplus\n#if Z\nint z;\n#else\n{}\n#endif\n#endif",
)  # fmt: skip
SHOWING = (
    "{}", "#ifndef PART_H\n#define PART_H\n{}\n#endif", "#if X\nint x;\n#else\n{}\n#endif", "/* text */\n{}",
    '#ifdef __cplusplus\nextern "C" {{\n#endif\n{}\n#ifdef __cplusplus\n}}\n#endif',
    "#ifndef __cplusplus\n#error C++ only\n#endif\n{}", "#ifndef __cplusplus\n{}\n#endif", "int a; // text\n{}",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(C_LINES), max_size=6).map("\n".join)


@given(TEXTS, st.lists(st.tuples(st.sampled_from(CPP_LINES), st.sampled_from(HIDING)), max_size=3), TEXTS)
def test_a_header_of_c_stays_cs_with_what_c_does_not_read(
    above: str, hidden: list[tuple[str, str]], below: str
) -> None:
    parts = [form.format(line) for line, form in hidden if '"' not in form or "\n" not in line]
    assert header_language("c", "/nowhere/part.h", "\n".join((above, *parts, below))) == "c"


@given(TEXTS, st.sampled_from(CPP_LINES), st.sampled_from(SHOWING), TEXTS)
def test_a_line_that_c_cannot_say_makes_a_header_cpps(above: str, line: str, form: str, below: str) -> None:
    text = "\n".join((above, form.format(line), below))
    for path in ("/nowhere/part.h", "/nowhere/PART.H", "untitled:part.h"):
        assert header_language("c", path, text) == "cpp"
    for called in ("cpp", "objective-c", "cuda-cpp", ""):
        assert header_language(called, "/nowhere/part.h", text) == called, "who calls it otherwise is believed"
    assert header_language("c", "/nowhere/part.c", text) == "c"


BESIDE = {
    "": "c", "part.cpp": "cpp", "Part.CC": "cpp", "part.c": "c", "part.c part.cpp": "c", "other.cpp": "cpp",
    "other.c": "c", "other.c other.cpp": "c", "part.cpp other.c": "cpp", "part.c other.cpp": "c", "other.h": "c",
    "other.h other.hpp": "cpp", "part.cu other.c": "cpp", "sketch.ino": "cpp", "view.mm": "cpp", "view.m": "c",
    "view.m view.mm": "c", "notes.md build.py": "c", "notes.md other.cxx": "cpp", "part.test.cpp": "cpp",
}  # fmt: skip


@pytest.mark.parametrize(("names", "language"), BESIDE.items())
def test_the_files_beside_it_tell_those_with_its_stem_first(names: str, language: str, tmp_path: Path) -> None:
    for name in ("part.h", *names.split()):
        (tmp_path / name).write_text("int a;\n")
    header = tmp_path / "part.h"
    assert header_language("c", str(header), "int a;\n") == read(header).language == language
    for called in ("", "c"):
        document = OpenDocument(Counters(), header.as_uri(), called, "int a;\n")
        assert (document.language, document.called, document.family) == (language, "c", "c")
