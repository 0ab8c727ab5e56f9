"""How one file would import a name, from what other files define and import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from efim_ls.languages.table import language_of
from efim_ls.text.outline import outline
from efim_ls.workspace.imports.importable import find_importable
from efim_ls.workspace.imports.paths import ReferringFile
from efim_ls.workspace.index_file import IndexFile
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZERS, indexed

ITS_FILE = "class Square: pass\n"


def found(folder: Path, files: Mapping[str, str], path: str, name: str) -> tuple[str, int] | None:
    """The module that a file would import a name from, and how many others do."""
    for each, text in files.items():
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).write_text(text)
    opened, where = IndexFile(None, ORIGIN, TOKENIZERS, pytest.fail, "outlines"), str(folder / path)
    opened.put([indexed(str(folder / each), text, language_of(each)) for each, text in files.items()])
    file = ReferringFile(where, language_of(path), files[path])
    own = outline(file.text, file.language).imports
    importable = find_importable(opened, file, own, name, lambda shown: "hidden" not in shown)
    return importable and (importable.module, importable.importers)


@pytest.mark.parametrize(
    ("others", "own", "expected"),
    [
        ({}, "", ("a.b.shape", 0)),
        ({}, "from .core import x\n", (".shape", 0)),
        ({"a/b/c/d.py": "from ..shape import Square\n"}, "", (".shape", 1)),
        ({"a/b/c/d.py": "from ..shape import Square\n"}, "from a.b import x\n", ("a.b.shape", 1)),
        ({"a/b/c/d.py": "from a.b.shape import Square\n"}, "", ("a.b.shape", 1)),
        ({"a/b/c/d.py": "from other import Square\n"}, "", ("a.b.shape", 0)),
        ({"a/more.py": ITS_FILE}, "", None),
        ({"a/more.py": ITS_FILE, "a/user.py": "from a.b.shape import Square\n"}, "", ("a.b.shape", 1)),
        ({"a/b/hidden.py": "from .shape import Square\n"}, "", ("a.b.shape", 0)),
        ({"a/shape.ts": "export class Square {}\n"}, "", ("a.b.shape", 0)),
        ({}, "class Square: pass\n", None),
        ({"a/user.py": "from a.b.shape import Square\n"}, "class Square: pass\n", None),
    ],
)
def test_within_a_package(
    tmp_path: Path, others: Mapping[str, str], own: str, expected: tuple[str, int] | None
) -> None:
    packages = dict.fromkeys(("a/__init__.py", "a/b/__init__.py", "a/b/c/__init__.py"), "")
    files = {**packages, "a/b/shape.py": ITS_FILE, "a/b/own.py": own, **others}
    assert found(tmp_path, files, "a/b/own.py", "Square") == expected


@pytest.mark.parametrize(
    ("package", "other", "expected"),
    [
        ("", "", None),
        ("from .shape import Square\n", "", ("a", 1)),
        ("from .shape import Square\n", "from a.shape import Square\n", ("a.shape", 2)),
    ],
)
def test_outside_of_its_package(tmp_path: Path, package: str, other: str, expected: tuple[str, int] | None) -> None:
    files = {"a/__init__.py": package, "a/shape.py": ITS_FILE, "tests/own.py": "", "tests/other.py": other}
    assert found(tmp_path, files, "tests/own.py", "Square") == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("import { Square } from './shape'", ("../shape", 1)),
        ("import { Square } from './shape.js'", ("../shape.js", 1)),
        ("import { Square } from '@/shape'", ("@/shape", 1)),
        ("import { Circle } from './shape'", None),
    ],
)
def test_in_typescript_it_is_written_as_others_do(
    tmp_path: Path, other: str, expected: tuple[str, int] | None
) -> None:
    files = {"shape.ts": "export class Square {}\n", "other.ts": other, "views/own.ts": ""}
    assert found(tmp_path, files, "views/own.ts", "Square") == expected


def test_the_nearest_files_tell_how_it_is_written(tmp_path: Path) -> None:
    others = {f"{name}.ts": "import { Square } from '@/shape'" for name in ("one", "two", "three")}
    files = {"shape.ts": "export class Square {}\n", "views/near.ts": "import { Square } from '../shape'"}
    assert found(tmp_path, {**files, **others, "views/own.ts": ""}, "views/own.ts", "Square") == ("../shape", 4)


def test_another_crate_has_other_paths(tmp_path: Path) -> None:
    files = {"one/Cargo.toml": "", "one/shape.rs": "pub struct Square;\n", "one/a.rs": "use crate::shape::Square;\n"}
    assert found(tmp_path, {**files, "two/Cargo.toml": "", "two/own.rs": ""}, "two/own.rs", "Square") is None
    assert found(tmp_path, {**files, "one/own.rs": ""}, "one/own.rs", "Square") == ("crate::shape", 1)


def test_in_go_a_package_has_one_path(tmp_path: Path) -> None:
    files = {"a.go": 'package a\n\nimport "x.com/shape"\n', "own.go": "package a\n"}
    assert found(tmp_path, files, "own.go", "shape") == ("x.com/shape", 1)


def test_what_the_file_itself_imports_by_another_name_is_not_asked(tmp_path: Path) -> None:
    own = 'package a\n\nimport s "y.com/shape"\n'
    files = {"a.go": 'package a\n\nimport "x.com/shape"\n', "own.go": own}
    assert found(tmp_path, files, "own.go", "shape") == ("x.com/shape", 1)


def test_in_go_two_paths_are_none(tmp_path: Path) -> None:
    files = {"a.go": 'package a\n\nimport "x.com/shape"\nimport "y.com/shape"\n', "own.go": "package a\n"}
    assert found(tmp_path, files, "own.go", "shape") is None


@pytest.mark.parametrize(("other", "expected"), [("crate::shape::Square", "crate::shape"), ("super::Square", None)])
def test_in_rust_the_path_begins_at_the_crate(tmp_path: Path, other: str, expected: str | None) -> None:
    files = {"shape.rs": "pub struct Square;\n", "other.rs": f"use {other};\n", "own.rs": ""}
    importable = found(tmp_path, files, "own.rs", "Square")
    assert (importable and importable[0]) == expected


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("package org.shop;\n", "import org.shapes.Square;\n", ("org.shapes", 1)),
        ("package org.shapes;\n", "import org.shapes.Square;\n", None),  # a test, in another folder
        ("package org.shop;\n", "import org.shapes.*;\n", None),
        ("package org.shop;\n", "import com.other.Square;\n", None),
    ],
)
def test_in_java_it_is_the_package_that_others_name(
    tmp_path: Path, own: str, other: str, expected: tuple[str, int] | None
) -> None:
    shape = "package org.shapes;\n\npublic class Square {}\n"
    files = {"main/org/shapes/Square.java": shape, "main/org/shop/Other.java": other, "test/org/Own.java": own}
    assert found(tmp_path, files, "test/org/Own.java", "Square") == expected


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ("namespace App\\Shop;\n", "use App\\Shapes\\Square;\n", ("App\\Shapes\\", 1)),
        ("namespace App\\Shop;\n", "use App\\Shapes\\{Circle, Square};\n", ("App\\Shapes\\", 1)),
        ("namespace App\\Shapes;\n", "use App\\Shapes\\Square;\n", None),
        ("namespace App\\Shop;\n", "use Other\\Square;\n", ("Other\\", 1)),
        ("namespace App\\Shop;\n", "use function App\\Shapes\\Square;\n", None),
    ],
)
def test_in_php_it_is_the_name_space_that_others_name(
    tmp_path: Path, own: str, other: str, expected: tuple[str, int] | None
) -> None:
    """Some folder stands for the first names of a name space, so a name in none may be from anywhere."""
    shape = "<?php\nnamespace App\\Shapes;\n\nclass Square {}\n"
    files = {"src/Shapes/Square.php": shape, "src/Other.php": f"<?php\n{other}", "src/Shop/Own.php": f"<?php\n{own}"}
    assert found(tmp_path, files, "src/Shop/Own.php", "Square") == expected
