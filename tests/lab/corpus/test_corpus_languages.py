"""What of TypeScript, JavaScript and Go is trained on, and how it is cleaned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Node, Parser

from efim_lab.gate import documents
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.corpus.debian.notices import read_notice
from efim_lab.workshop.training.corpus.fetching import read_list
from efim_lab.workshop.training.corpus.go import packages as go
from efim_lab.workshop.training.corpus.javascript import packages as javascript
from efim_lab.workshop.training.corpus.javascript.code import looks_written, snippets
from efim_lab.workshop.training.corpus.language import CorpusSource, RefusedPackage
from efim_lab.workshop.training.corpus.languages import LANGUAGES
from efim_lab.workshop.training.corpus.licences import is_permissive
from efim_ls.text.grammars import grammar_of

GO, TYPESCRIPT = LANGUAGES["go"], LANGUAGES["typescript"]


def script(word: str) -> str:
    """Return a module of TypeScript that is written by hand."""
    lines = (f"export function {word}{n}(first: number, second: number): number {{" for n in range(20))
    return "".join(f"{line}\n  return first + second * {n};\n}}\n\n" for n, line in enumerate(lines))


def go_file(word: str) -> str:
    lines = (f"func {word}{n}(first, second int) int {{" for n in range(20))
    return "package shapes\n\n" + "".join(
        f"{line}\n\treturn first + second*{n}\n}}\n\n" for n, line in enumerate(lines)
    )


CODE = "const one = 1;\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("// Copyright A. Person\n// All rights reserved.\n\n" + CODE, CODE),
        ("/*!\n * Licensed under the MIT licence\n */\n" + CODE, CODE),
        ("#!/usr/bin/env node\n// SPDX-License-Identifier: MIT\n" + CODE, CODE),
        ("// Copyright\n\n// What this does.\n" + CODE, "// What this does.\n" + CODE),
        ("// eslint-disable-next-line no-console\n" + CODE, CODE),
        ("/* eslint-disable no-console, max-len */\n\n" + CODE, CODE),
        ("const one = 1; // eslint-disable-line no-magic-numbers\n", CODE),
        ("// @ts-expect-error: it is private\n" + CODE, CODE),
        ("const one = /* istanbul ignore next */ 1;\n", "const one =  1;\n"),
        ("const one = 1; //nolint:gomnd\n", CODE),
        ("/**\n * One.\n * @author A. Person <a@example.org>\n */\n" + CODE, "/**\n * One.\n */\n" + CODE),
        (CODE + "\n// Copyright A. Person\n// whoever that is\n\n" + CODE, CODE + "\n" + CODE),
        ("const text = `// eslint-disable-line`;\n", "const text = `// eslint-disable-line`;\n"),
        ("const text = '/* Copyright */';\n", "const text = '/* Copyright */';\n"),
        ("const a = <b>{/* prettier-ignore */}</b>;\n", "const a = <b>{/* prettier-ignore */}</b>;\n"),
        ("// The standard way: global state.\n" + CODE, "// The standard way: global state.\n" + CODE),
        ("// Prettier than before.\n" + CODE, "// Prettier than before.\n" + CODE),
    ],
)
def test_comments_for_tools_and_lawyers_are_not_learnt(before: str, after: str) -> None:
    assert TYPESCRIPT.clean(before) == after


def test_gos_comments_are_cleaned_but_those_of_the_build_that_stand_with_the_package_stay() -> None:
    text = "// Copyright 2020 The Authors.\n\n//go:build linux\n\n// Package one is one.\npackage one\n\n"
    text += "//nolint:deadcode\nvar a = 1 // nolint\n\n//go:embed a.txt\nvar b string\n"
    cleaned = (
        "//go:build linux\n\n// Package one is one.\npackage one\n\nvar a = 1\n\n//go:embed a.txt\nvar b string\n"
    )
    assert GO.clean(text) == cleaned


PIECES = st.lists(
    st.sampled_from(
        [
            "// eslint-disable-line\n",
            "/* Copyright */",
            "// größe 🙂\n",
            "\n",
            "\n\n",
            "x = 1;",
            "  ",
            "f('// nolint');\n",
        ]
        + ["/**\n * @author A\n * One.\n */\n", "`/* @ts-ignore */`;\n", "// @ts-ignore\n", "let y;\n"]
    ),
    max_size=12,
).map("".join)


@given(PIECES)
def test_only_comments_and_blanks_are_removed(text: str) -> None:
    cleaned = TYPESCRIPT.clean(text)
    assert _tokens(cleaned) == _tokens(text)
    assert TYPESCRIPT.clean(cleaned) == cleaned


def _tokens(text: str) -> list[bytes | None]:
    grammar = grammar_of("typescript")
    assert grammar is not None

    def leaves(node: Node) -> list[bytes | None]:
        if node.type == "comment" or not node.text:
            return []
        return [each for child in node.children for each in leaves(child)] if node.children else [node.text]

    return leaves(Parser(grammar).parse(text.encode()).root_node)


@pytest.mark.parametrize(
    "trace",
    [
        'Object.defineProperty(exports, "__esModule", { value: true });\n',
        "//# sourceMappingURL=a.js.map\n",
        "const a = /*#__PURE__*/ f();\n",
        'import { __awaiter } from "tslib";\n',
        "_inherits(A, B);\n",
    ],
)
def test_what_compilers_write_is_not_learnt(trace: str) -> None:
    assert looks_written(script("area"))
    assert not looks_written(script("area") + trace)


def test_examples_are_found_in_documentation() -> None:
    text = "/**\n * Adds.\n *\n * @example\n * const sum = add(1, 2);\n * add(sum, 3);\n *\n * @param a one\n */\n"
    text += "/**\n * Draws:\n *\n * ```ts\n * draw(shape);\n * ```\n * and\n * ```sh\n * npm start(1)\n * ```\n */\n"
    text += '// ```ts not documentation```\n/** @example\n * Input: "a = 1" gives { b: 2 }\n */\n'
    assert [*snippets(text)] == ["const sum = add(1, 2);\nadd(sum, 3);", "draw(shape);"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("src/index.ts", True), ("src/view.tsx", True), ("lib/a.js", True), ("a.mjs", True), ("src/b.cts", True),
        ("index.d.ts", False), ("dist/a.js", False), ("src/a.test.ts", False), ("src/__tests__/a.ts", False),
        ("a.min.js", False), ("lib-esm/a.js", False), ("node_modules/b/a.js", False), ("README.md", False),
        ("src/vendor/a.js", False), (".storybook/a.ts", False), ("test/a.js", False), ("src/latest/a.ts", True),
    ],
)  # fmt: skip
def test_paths_of_npms_packages(path: str, wanted: bool) -> None:
    assert javascript.is_wanted(path) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("cmd/main.go", True), ("a_linux.go", True), ("a_test.go", False), ("a.pb.go", False), ("vendor/a.go", False),
        ("testdata/a.go", False), ("_examples/a.go", False), ("zz_generated.go", False), ("a.s", False),
    ],
)  # fmt: skip
def test_paths_of_gos_packages(path: str, wanted: bool) -> None:
    assert go.is_wanted(path) == wanted


@pytest.mark.parametrize(
    ("language", "name", "part"),
    [
        ("typescript", "left-pad", "train"), ("typescript", "zod", "heldout"), ("typescript", "@zod/core", "heldout"),
        ("typescript", "redux", "tuning"), ("typescript", "@nestjs/common", None), ("typescript", "hono", None),
        ("typescript", "zod-to-openapi", "train"),
        ("go", "github.com/rclone/rclone", "train"), ("go", "github.com/spf13/cobra", "heldout"),
        ("go", "github.com/spf13/cobra/doc", "heldout"), ("go", "github.com/spf13/cobra-cli", "train"),
        ("go", "github.com/yuin/goldmark", "tuning"), ("go", "github.com/urfave/cli/v2", None),
        ("go", "github.com/labstack/echo.v2", None),
        ("python", "redis", None), ("python", "click", "tuning"), ("python", "attrs", "train"),
    ],
)  # fmt: skip
def test_packages_that_measure_are_not_trained_on(language: str, name: str, part: str | None) -> None:
    assert LANGUAGES[language].splits.part_of(name) == part


def npm_package(folder: Path, name: str, stated: dict[str, object], files: dict[str, str]) -> Path:
    root = folder / name.replace("/", "-")
    for path, text in {"package.json": json.dumps({"name": name, "version": "1.0.0", **stated}), **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("stated", "licence"),
    [
        ({"license": "MIT"}, "MIT"),
        ({"license": {"type": "ISC"}}, "ISC"),
        ({"licenses": [{"type": "BSD-2-Clause"}]}, "BSD-2-Clause"),
        ({"license": "(MIT OR GPL-3.0)"}, "(MIT OR GPL-3.0)"),
    ],
)
def test_a_package_states_its_licence(tmp_path: Path, stated: dict[str, object], licence: str) -> None:
    (found,) = javascript.found_in(npm_package(tmp_path, "@a/b", stated, {"src/a.ts": "", "dist/a.js": ""}))
    assert isinstance(found, CorpusSource)
    assert (found.name, found.licence, found.files, found.folder) == ("@a/b", licence, ("src/a.ts",), "@a.b-1.0.0")


@pytest.mark.parametrize("stated", [{}, {"license": "GPL-3.0"}, {"license": "SEE LICENSE IN LICENSE"}])
def test_a_package_without_permission_is_refused(tmp_path: Path, stated: dict[str, object]) -> None:
    (found,) = javascript.found_in(npm_package(tmp_path, "b", stated, {"src/a.ts": ""}))
    assert isinstance(found, RefusedPackage)


NOTICE = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2020 A. Person
License: {upstream}

Files: debian/*
Copyright: 2020 Another
License: GPL-2+

License: Expat
 Permission is hereby granted
"""


@pytest.mark.parametrize(
    ("upstream", "licence"),
    [
        ("Expat", "(MIT)"), ("Apache-2.0 and Expat", "(Apache-2.0 and MIT)"), ("Go", "(BSD-3-Clause)"),
        ("MPL-2.0", "(MPL-2.0)"), ("", ""),
    ],
)  # fmt: skip
def test_debians_notices_state_licences(upstream: str, licence: str) -> None:
    assert read_notice(NOTICE.format(upstream=upstream)) == (licence, ())
    assert is_permissive(licence) == (licence not in ("", "(MPL-2.0)"))


def test_files_with_other_licences_are_left_out_wherever_the_notice_counts_from(tmp_path: Path) -> None:
    stanzas = "Files: *\nLicense: Expat\n\nFiles: b/gpl*\n c/*.go\n d.go\nLicense: GPL-2+\n The text.\n\n"
    stanzas += "Files: isc.go\nLicense: ISC\n"
    files = dict.fromkeys(
        [f"example.org/a/{name}" for name in ("a.go", "b/gpl/x.go", "b/x.go", "c/x.go", "d.go")], ""
    )
    root = debian_package(tmp_path, "golang-a-dev", "Expat", {**files, "example.org/a/isc.go": ""})
    (root / "usr/share/doc/golang-a-dev/copyright").write_text(stanzas)
    (found,) = go.found_in(root)
    assert isinstance(found, CorpusSource)
    assert (found.licence, found.files) == ("(ISC) AND (MIT)", ("a.go", "b/x.go", "isc.go"))


def debian_package(folder: Path, name: str, upstream: str, files: dict[str, str]) -> Path:
    notice = {f"usr/share/doc/{name}/copyright": NOTICE.format(upstream=upstream)}
    root = folder / f"{name}_1%3a2.0-1"
    for path, text in {**notice, **{f"usr/share/gocode/src/{path}": text for path, text in files.items()}}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_a_package_of_debian_is_named_by_its_import_path(tmp_path: Path) -> None:
    files = {"example.org/a/b/b.go": "", "example.org/a/b/c/c.go": "", "example.org/a/b/b_test.go": ""}
    (found,) = go.found_in(debian_package(tmp_path, "golang-a-dev", "Expat", files))
    assert isinstance(found, CorpusSource)
    assert (found.name, found.version, found.files) == ("example.org/a/b", "1:2.0-1", ("b.go", "c/c.go"))


def test_modules_that_measure_are_left_out_of_others_packages(tmp_path: Path) -> None:
    files = {"example.org/a/b.go": "", "github.com/spf13/cobra/c.go": ""}
    (found,) = go.found_in(debian_package(tmp_path, "golang-a-dev", "Expat", files))
    assert isinstance(found, CorpusSource) and found.files == ("example.org/a/b.go",)
    (found,) = go.found_in(debian_package(tmp_path, "golang-x-dev", "Expat", {"github.com/gorilla/mux/m.go": ""}))
    assert found == RefusedPackage("github.com/gorilla/mux", "1:2.0-1", "(MIT)")


def test_a_corpus_of_typescript_is_gathered_from_fetched_and_own_folders(tmp_path: Path) -> None:
    fetched, own, out = tmp_path / "fetched", tmp_path / "own", tmp_path / "out"
    npm_package(fetched, "alpha", {"license": "MIT"}, {"src/a.ts": "// Copyright\n\n" + script("alpha")})
    npm_package(fetched, "zod", {"license": "MIT"}, {"src/z.ts": script("held")})
    npm_package(fetched, "immer", {"license": "MIT"}, {"src/i.ts": script("tuned")})
    npm_package(fetched, "undici", {"license": "MIT"}, {"lib/u.js": script("measured")})
    (own / "beta").mkdir(parents=True)
    (own / "beta" / "b.tsx").write_text(script("beta"))
    words = ["corpus", str(own), "--language", "typescript", "--fetched", str(fetched), "--out", str(out)]
    assert main(words) == 0
    parts = {part: documents.read_documents(out / f"{part}.jsonl") for part in ("train", "tuning", "heldout")}
    assert {part: [each.path for each in found] for part, found in parts.items()} == {
        "train": ["alpha-1.0.0/src/a.ts", "beta-0/beta/b.tsx"],
        "tuning": ["immer-1.0.0/src/i.ts"],
        "heldout": ["zod-1.0.0/src/z.ts"],
    }
    assert parts["train"][0].text == script("alpha")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["languages"] == ["typescript"]
    assert [each["name"] for each in manifest["refused"]] == ["undici"]


def test_a_corpus_of_go_is_gathered(tmp_path: Path) -> None:
    fetched, out = tmp_path / "fetched", tmp_path / "out"
    debian_package(fetched, "golang-a-dev", "Expat", {"example.org/a/a.go": go_file("A")})
    debian_package(fetched, "golang-c-dev", "Expat", {"github.com/spf13/cobra/c.go": go_file("C")})
    debian_package(fetched, "golang-t-dev", "Expat", {"github.com/rs/zerolog/t.go": go_file("T")})
    assert main(["corpus", "--language", "go", "--fetched", str(fetched), "--out", str(out)]) == 0
    assert [each.path for each in documents.read_documents(out / "train.jsonl")] == ["example.org.a-1:2.0-1/a.go"]


def test_a_language_without_folders_of_its_own_asks_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "--language", "go", "--out", str(tmp_path / "out")]) == 1
    assert "no folder with Go files was named: name one, or --fetched" in capsys.readouterr().err


@pytest.mark.parametrize(("language", "path"), [("typescript", javascript.PACKAGES), ("go", go.PACKAGES)])
def test_a_list_pins_permissive_packages(language: str, path: Path) -> None:
    found = read_list(path)
    names = [each.package for each in found]
    assert len(names) > 100 and names == sorted(set(names))
    assert all(is_permissive(each.licence) for each in found)
