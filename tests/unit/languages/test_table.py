"""What a model knows of languages, and how people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from editor_clients.headless import ops
from efim_ls.languages.forms.language import Language
from efim_ls.languages.table import (
    ANY,
    ENDINGS,
    LANGUAGES,
    MODULES,
    family_of,
    guess_language,
    known_as,
    knows,
    language_named,
    language_of,
    name_of,
    names_of,
    notice,
    with_dialects,
)
from efim_ls.text.document import Document
from model_runtime.checkpoint.config import read_languages
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED

DIALECTS = [each for each in LANGUAGES.values() if each.dialect_of]


def test_each_language_and_each_ending_stands_in_the_table_once() -> None:
    rows = [each for module in MODULES for each in module.LANGUAGES]
    endings = [ending for each in rows for ending in each.endings.split()]
    assert sorted(each.id for each in rows) == sorted(filter(None, LANGUAGES))
    assert len({each.name for each in rows}) == len(rows)
    assert len(endings) == len(ENDINGS) and all(each.islower() and "." not in each[1:] for each in endings)


def test_the_headless_editor_calls_files_by_the_same_languages() -> None:
    assert ops.LANGUAGES.items() <= ENDINGS.items()


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "python"), ("stubs/a.PYI", "python"), ("file:///a/b.ts", "typescript"), ("a.d.ts", "typescript"),
        ("Makefile", "makefile"), ("file:///a/GNUmakefile", "makefile"), ("/a/Dockerfile", "dockerfile"),
        ("Gemfile", "ruby"), ("my.Makefile", ""), (".makefile", ""), ("Makefile/a", ""), ("makefile.py", "python"),
        ("a.unheard", ""), (".ts", ""), ("LICENSE", ""), ("py", ""), ("", ""),
        ("vscode-notebook-cell:/a.ipynb#W0", ""),
    ],
)  # fmt: skip
def test_a_file_is_in_the_language_that_its_name_tells(path: str, language: str) -> None:
    assert language_of(path) == language


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("typescript.tsx", "typescriptreact"), ("javascript.jsx", "javascriptreact"), ("python.django", "python"),
        ("typescript.jest", "typescript"), ("typescript.tsx.jest", "typescriptreact"), ("Python.Django", "Python"),
        ("cpp.doxygen", "cpp"), ("django.python", "python"), ("unheard.of", "unheard"), (".", "."), ("", ""),
        ("python.", "python."), ("typescriptreact", "typescriptreact"), ("vue.tsx", "vue"), ("helm", "helm"),
    ],
)  # fmt: skip
def test_a_name_of_parts_is_the_language_of_its_first_part(name: str, language: str) -> None:
    assert language_named(name) == Document("file:///a", name, "").language == language


@pytest.mark.parametrize(
    ("editor", "names"),
    [
        ("Eglot", {
            "python-base": "python", "js": "javascript", "js2": "javascript", "js-jsx": "javascriptreact",
            "rjsx": "javascriptreact", "tsx": "typescriptreact", "c++": "cpp", "sh": "shellscript",
            "bash": "shellscript", "enh-ruby": "ruby", "rustic": "rust", "tuareg": "ocaml", "cperl": "perl",
            "gfm": "gfm",
        }),
        ("Vim", {"cs": "csharp", "sh": "shellscript", "zsh": "shellscript", "ps1": "powershell"}),
        ("IntelliJ", {
            "ECMAScript 6": "javascript", "TypeScript JSX": "typescriptreact", "JAVA": "JAVA",
            "Shell Script": "shellscript", "C#": "csharp",
        }),
        ("Zed", {"tsx": "typescriptreact", "c++": "cpp", "c#": "csharp", "plain text": "plaintext"}),
        ("nobody", {"matlab": "matlab", "": "", "unheard": "unheard"}),
    ],
)  # fmt: skip
def test_a_language_is_known_by_the_names_of_editors_modes(editor: str, names: dict[str, str]) -> None:
    assert {name: language_named(name, "file:///a") for name in names} == names
    assert {name: Document("file:///a", name, "").language for name in names} == names


@pytest.mark.parametrize(
    ("path", "called", "language"),
    [
        ("file:///App.tsx", "typescript", "typescriptreact"), ("file:///App.TSX", "TypeScript", "typescriptreact"),
        ("file:///App.jsx", "javascript", "javascriptreact"), ("file:///App.jsx", "js", "javascriptreact"),
        ("file:///app.ts", "typescript", "typescript"), ("file:///app.js", "javascript", "javascript"),
        ("file:///App.tsx", "html", "html"), ("file:///App.tsx", "python", "python"),
        ("untitled:1", "js", "javascript"),
    ],
)  # fmt: skip
def test_a_client_that_names_the_language_means_the_dialect_of_the_files_ending(
    path: str, called: str, language: str
) -> None:
    assert language_named(called, path) == Document(path, called, "").language == language


def test_no_two_languages_have_a_name_in_common() -> None:
    told = [name for each in LANGUAGES.values() for name in each.also.split(", ") if name]
    assert len({*told}) == len(told) and {*told}.isdisjoint(LANGUAGES)


def test_a_model_knows_what_is_named_and_what_has_no_name() -> None:
    assert knows(("python", "Go"), "Python") and knows(("python", "Go"), "go")
    assert not knows(("python",), "typescript") and not knows((), "go")
    assert knows((ANY,), "go") and knows((), "") and knows(("python",), "")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.id)
def test_a_model_that_knows_a_language_knows_its_dialects(dialect: Language) -> None:
    of = dialect.dialect_of
    language = LANGUAGES[of]
    assert language.id == of and not language.dialect_of, "a dialect is one of a language in the table"
    assert family_of(dialect.id) == family_of(of), "their files are counted with one tokenizer"
    own = {"id": of, "name": language.name, "endings": language.endings, "family": language.family}
    assert replace(dialect, **own, telling=language.telling, dialect_of="") == language, "it is read as that is"
    assert known_as(dialect.id.upper()) == (dialect.id, of) and known_as(of) == (of,)
    for known in ((of,), (of.upper(),), (dialect.id,), (ANY,)):
        assert knows(known, dialect.id) and notice("me/mine", known, dialect.id) is None
    assert not knows((dialect.id,), of) and not knows((), dialect.id)
    assert dialect.id in with_dialects((of,)) and of not in with_dialects((dialect.id,))
    assert names_of(with_dialects((of,))) == [name_of(of)] and names_of([dialect.id]) == [dialect.name]


@pytest.mark.parametrize(
    ("known", "language", "is_known"),
    [
        ("cpp", "cuda-cpp", True), ("cpp", "cuda", True), ("cpp", "arduino", True), ("cpp", "objective-cpp", True),
        ("c", "objective-c", True), ("c", "objc", True), ("c", "opencl", True), ("c", "cuda-cpp", False),
        ("c", "cpp", False), ("cpp", "c", False), ("cpp", "objective-c", False), ("c", "objective-cpp", False),
        ("javascript", "javascriptreact", False), ("typescript", "javascript", False), ("css", "scss", False),
    ],
)  # fmt: skip
def test_languages_that_only_share_words_are_no_dialects(known: str, language: str, is_known: bool) -> None:
    assert knows((known,), language) is is_known


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("kernel.cu", "cuda-cpp"), ("warp.cuh", "cuda-cpp"), ("blink.INO", "arduino"), ("App.mm", "objective-cpp"),
        ("App.m", "objective-c"), ("blur.cl", "opencl"),
    ],
)  # fmt: skip
def test_files_in_dialects_are_known_by_their_endings(path: str, language: str) -> None:
    assert language_of(path) == language


def test_people_are_told_the_model_its_languages_and_the_remedy() -> None:
    assert notice("", ("python",), "python") is None
    assert notice("", ("python",), "typescript") == (
        "The embedded models know Python only; here suggestions come from this file's own phrases. "
        "Choose a model that knows TypeScript with the setting 'model'."
    )
    known = ("python", "javascript", "javascriptreact", "typescript", "typescriptreact")
    told = notice("", known, "rust")
    assert told is not None and told.startswith("The embedded models know Python, JavaScript and TypeScript only;")
    assert told.endswith(" Install the wheel efim_ls_more, whose model knows Rust.")
    assert "wheel efim_ls_more, whose model knows CUDA C++." in (notice("", known, "cuda-cpp") or "")
    assert names_of(["typescriptreact"]) == ["TypeScript JSX"], "a dialect stands for itself where it is alone"
    message = notice("me/mine", ("python", "go", "made-up"), "rust")
    assert message is not None and message.startswith("The model me/mine knows Python, Go and made-up only;")
    assert message.endswith("Choose a model that knows Rust with the setting 'model'.")
    assert name_of("made-up") == "made-up"


def test_a_long_line_is_guessed_by_its_beginning() -> None:
    assert guess_language("const x = 1\n" + "function " * 1_000_000) == "javascript"


def test_a_language_names_the_wheel_whose_model_knows_it() -> None:
    """The wheels of `make release`: each model in the folder that the server does not bring."""
    folders = [each.parent for each in EMBEDDED.parent.glob("*/config.json")]
    apart = {name: f"efim_ls_{each.name}" for each in folders for name in read_languages(each) if name not in SHIPPED}
    assert {each.id: each.wheel for each in LANGUAGES.values() if each.wheel and not each.dialect_of} == apart
