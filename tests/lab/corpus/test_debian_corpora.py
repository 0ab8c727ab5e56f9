"""What of Rust, Java, C, C++, Ruby, PHP and shell is trained on, and how it is cleaned."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Node

from efim_lab.gate import documents
from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.corpus.comments import parsed_code
from efim_lab.workshop.training.corpus.corpus import ManifestEntry, read_manifest
from efim_lab.workshop.training.corpus.debian.languages import PACKAGED
from efim_lab.workshop.training.corpus.fetching import read_list
from efim_lab.workshop.training.corpus.language import CorpusSource, RefusedPackage
from efim_lab.workshop.training.corpus.languages import LANGUAGES
from efim_lab.workshop.training.corpus.licences import is_permissive

BY_NAME = {each.name: each for each in PACKAGED}
NOTICE = "Files: *\nLicense: {}\n\nFiles: */gpl.*\nLicense: GPL-2+\n"


def package(folder: Path, name: str, files: dict[str, str], licence: str = "Expat") -> Path:
    """Write a package's sources as `fetch` unpacks them."""
    root = folder / f"{name}_1%3a2.0-1"
    for path, text in {"debian/copyright": NOTICE.format(licence), **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("language", "wanted", "unwanted"),
    [
        ("rust", "src/lib.rs a/src/build_all.rs", "build.rs tests/a.rs benches_tests.rs src/vendor/a.rs a.c"),
        ("java", "src/main/a/Latest.java A.java", "src/test/A.java a/AppTest.java package-info.java Tests.java"),
        ("c", "src/a.c include/a.h latest/b.c", "test/a.c a_test.c parser.tab.c third_party/a.c a.pb-c.h config.h"),
        ("cpp", "a.cc a.hpp src/b.cxx a.h", "moc_a.cpp a_unittest.cc a.pb.cc 3rdparty/a.cpp a.c"),
        ("ruby", "lib/a.rb tasks/b.rake a.gemspec", "spec/a.rb a_spec.rb test/a.rb test_a.rb vendor/b.rb"),
        ("php", "src/A.php index.php", "tests/A.php ATest.php vendor/a.php autoload.php Resources/data/a.php"),
        ("shellscript", "a.sh bin/tool b.bash", "ltmain.sh configure test-a.sh tests/a.sh a_test.sh libtool a.zsh"),
    ],
)  # fmt: skip
def test_paths_of_packages(language: str, wanted: str, unwanted: str) -> None:
    assert [path for path in f"{wanted} {unwanted}".split() if BY_NAME[language].is_wanted(path)] == wanted.split()


@pytest.mark.parametrize(
    ("language", "name", "part"),
    [
        ("rust", "rand", "train"), ("rust", "hyper", "heldout"), ("rust", "env-logger-0.7", "heldout"),
        ("rust", "clap-derive", None), ("rust", "serde-json", None), ("rust", "tokio", None),
        ("rust", "url", "tuning"),
        ("java", "ant", "train"), ("java", "jsoup", "heldout"), ("java", "commons-io", "tuning"),
        ("c", "tmux", "heldout"), ("cpp", "tmux", "heldout"), ("cpp", "redis", None), ("c", "zlib", "train"),
        ("ruby", "ruby-rack-test", "heldout"), ("ruby", "ruby-racker", "train"), ("php", "php-monolog", "heldout"),
    ],
)  # fmt: skip
def test_packages_that_measure_are_not_trained_on(language: str, name: str, part: str | None) -> None:
    assert LANGUAGES[language].splits.part_of(name) == part


CODE = {
    "rust": "/// One.\nfn one() {}\n", "java": "class One {}\n", "c": "int one;\n", "cpp": "int one;\n",
    "ruby": "one = 1\n", "php": "$one = 1;\n", "shellscript": "one=1\n",
}  # fmt: skip
FIRST = {"php": "<?php\n", "shellscript": "#!/bin/sh\n", "ruby": "#!/usr/bin/env ruby\n"}
TOOLS = {
    "rust": "spell-checker: off", "java": "CHECKSTYLE:OFF", "c": "clang-format off", "cpp": "NOLINTNEXTLINE(x)",
    "ruby": "rubocop:disable Layout", "php": "phpcs:ignore", "shellscript": "shellcheck disable=SC1090",
}  # fmt: skip


@pytest.mark.parametrize("language", CODE)
def test_comments_for_tools_and_lawyers_are_not_learnt(language: str) -> None:
    mark = "#" if language in ("ruby", "shellscript") else "//"
    first, code, clean = FIRST.get(language, ""), CODE[language], LANGUAGES[language].clean
    notice, gap = f"{mark} Copyright A. Person\n{mark} All rights reserved.\n\n", "\n" if first else ""
    assert clean(first + notice + code) == first + gap + code
    assert clean(first + code + "\n" + notice + code) == first + code + "\n" + code
    assert clean(first + code + f"{mark} {TOOLS[language]}\n" + code) == first + code + code
    assert clean(first + f"{mark} What this does.\n" + code) == first + f"{mark} What this does.\n" + code
    assert LANGUAGES[language].without_notices(first + notice + code) == first + gap + code


@pytest.mark.parametrize("language", CODE)
@given(data=st.data())
def test_only_comments_and_blanks_are_removed(language: str, data: st.DataObject) -> None:
    mark = "#" if language in ("ruby", "shellscript") else "//"
    pieces = [f"{mark} {TOOLS[language]}\n", f"{mark} Copyright\n", f"{mark} größe 🙂\n", "\n", CODE[language]]
    pieces += [f"{mark} @author A\n", f"  {mark}\n"]
    text = FIRST.get(language, "") + "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))
    cleaned = LANGUAGES[language].clean(text)
    assert _tokens(cleaned, language) == _tokens(text, language)
    assert LANGUAGES[language].clean(cleaned) == cleaned


def _tokens(text: str, language: str) -> list[bytes | None]:
    def leaves(node: Node) -> list[bytes | None]:
        if node.type.endswith("comment") or not node.text:
            return []
        return [each for child in node.children for each in leaves(child)] if node.children else [node.text.strip()]

    return leaves(parsed_code(text.encode(), language).root_node)


def test_headers_are_learnt_as_what_they_tell(tmp_path: Path) -> None:
    files = {"a.h": "int one(void);\n", "b.h": "#pragma once\nnamespace b {}\n", "a.c": "", "b.cc": "", "x/gpl.c": ""}
    root = package(tmp_path, "one", files)
    found = {name: BY_NAME[name].found_in(root)[0] for name in ("c", "cpp")}
    assert {name: isinstance(each, CorpusSource) and each.files for name, each in found.items()} == {
        "c": ("a.c", "a.h"),
        "cpp": ("b.cc", "b.h"),
    }


def test_scripts_are_known_by_their_interpreter(tmp_path: Path) -> None:
    files = {
        "a": "#!/bin/sh\n",
        "b": "#!/usr/bin/perl\n",
        "c": "text\n",
        "d.sh": "one=1\n",
        "e.sh": "#!/usr/bin/tclsh\n",
    }
    (found,) = BY_NAME["shellscript"].found_in(package(tmp_path, "one", files))
    assert isinstance(found, CorpusSource) and found.files == ("a", "d.sh")


@pytest.mark.parametrize("licence", ["GPL-2+", "", "Artistic"])
def test_a_package_without_permission_is_refused(tmp_path: Path, licence: str) -> None:
    (found,) = BY_NAME["java"].found_in(package(tmp_path, "one", {"A.java": ""}, licence))
    assert found == RefusedPackage("one", "1:2.0-1", f"({licence})" if licence else "not stated")


def test_programs_in_rusts_documentation_become_examples() -> None:
    text = (
        "/// Adds.\n///\n/// ```\n/// # use a::add;\n/// let sum = add(1, 2);\n/// ```\n///\n/// ```text\n/// 1 + 2\n"
    )
    text += "/// ```\nfn add() {}\n//! ```no_run\n//! #[derive(Debug)]\n//! struct A;\n//! ```\n"
    assert [*LANGUAGES["rust"].snippets(text)] == ["use a::add;\nlet sum = add(1, 2);", "#[derive(Debug)]\nstruct A;"]


def test_a_corpus_of_java_is_gathered(tmp_path: Path) -> None:
    def java(word: str) -> str:
        methods = (
            f"    int {word}{n}(int first, int second) {{\n        return first * {n};\n    }}\n" for n in range(20)
        )
        return f"class {word.title()} {{\n{''.join(methods)}}}\n"

    fetched, out = tmp_path / "fetched", tmp_path / "out"
    for name, word in (("ant", "a"), ("jsoup", "b"), ("rome", "c"), ("google-gson", "d")):
        package(fetched, name, {"src/A.java": f"/* Copyright */\n{java(word)}"})
    assert main(["corpus", "--language", "java", "--fetched", str(fetched), "--out", str(out)]) == 0
    parts = {part: documents.read_documents(out / f"{part}.jsonl") for part in ("train", "tuning", "heldout")}
    assert {part: [each.path for each in found] for part, found in parts.items()} == {
        "train": ["ant-1:2.0-1/src/A.java"], "tuning": ["rome-1:2.0-1/src/A.java"],
        "heldout": ["jsoup-1:2.0-1/src/A.java"],
    }  # fmt: skip
    assert parts["train"][0].text == java("a")
    assert [each["name"] for each in json.loads((out / "manifest.json").read_text())["refused"]] == ["google-gson"]


@pytest.mark.parametrize(
    ("most", "least", "counts"),
    [
        ("1", "0.0001", {1: 5}), ("0.0002", "0.0001", {1: 2}), ("1", "0.00075", {2: 5}), ("0.0002", "0.0008", {4: 2}),
        ("1", "1", {4: 5}),
    ],
)  # fmt: skip
def test_corpora_of_several_languages_are_joined(
    tmp_path: Path, most: str, least: str, counts: dict[int, int]
) -> None:
    """`counts` says how many documents there are, by how often each is repeated."""
    [(copies, count)] = counts.items()
    for language in ("java", "c"):
        entries = [ManifestEntry(f"{language}-{n}", "1", "MIT", "train", 1, 100) for n in range(5)]
        content = {"languages": [language], "packages": [asdict(each) for each in entries]}
        (tmp_path / language).mkdir()
        (tmp_path / language / "manifest.json").write_text(json.dumps(content))
        for part, folders in (
            ("train", [each.folder for each in entries]),
            ("tuning", ["t-1"]),
            ("heldout", ["h-1"]),
        ):
            found = [CodeDocument(f"{folder}/a", language[0] * 100) for folder in folders]
            documents.write_documents(tmp_path / language / f"{part}.jsonl", found)
    words = ["join", *(str(tmp_path / each) for each in ("java", "c"))]
    assert main([*words, "--most", most, "--least", least, "--out", str(tmp_path / "out")]) == 0
    learnt = documents.read_documents(tmp_path / "out" / "train.jsonl")
    assert Counter(each.text[0] for each in learnt) == {"j": count * copies, "c": count * copies}
    assert len(documents.read_documents(tmp_path / "out" / "heldout.jsonl")) == 2
    manifest = read_manifest(tmp_path / "out" / "manifest.json")
    assert manifest.languages == ("java", "c")
    assert {each.folder for each in manifest.packages} == {each.path.partition("/")[0] for each in learnt}
    assert all((each.files, each.bytes) == (1, 100) for each in manifest.packages)


@pytest.mark.parametrize("language", BY_NAME)
def test_a_list_pins_permissive_packages(language: str) -> None:
    found = read_list(BY_NAME[language].packages)
    names = [each.package for each in found]
    assert len(names) > 100 and names == sorted(set(names))
    assert all(is_permissive(each.licence) for each in found)
