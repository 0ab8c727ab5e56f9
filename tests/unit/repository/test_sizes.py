"""Files, folders and functions small enough to be read at once, and names that mean one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PRODUCT = ("efim_ls", "model_runtime", "kv_store")
PACKAGES = (*PRODUCT, "efim_lab", "editor_clients")
Function = ast.FunctionDef | ast.AsyncFunctionDef
LONGEST_FILE, LONGEST_FUNCTION, MOST_FILES = 400, 50, 12
MOST_PARAMETERS = 8
MOST_WEIGHTS = {"more": 26_000_000}  # bytes of an embedded model, with the tables of its vocabulary's entries
MOST_OTHER_WEIGHTS = 20_000_000
MOST_METHODS_OF_A_SESSION = 20  # it is where all parts meet, and grows if nothing holds it
MOST_LINES_OF_THE_PRODUCT = 51_425  # of Python; it goes down with what is said twice
MOST_USED_ONCE = 0.60  # of the private functions: a name for a single use should tell something


def functions(path: Path) -> dict[str, Function]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    name = path.relative_to(ROOT)
    return {f"{name}:{node.lineno} {node.name}": node for node in nodes if isinstance(node, Function)}


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    each = function.args
    names = [a.arg for a in (*each.posonlyargs, *each.args, *each.kwonlyargs, each.vararg, each.kwarg) if a]
    return len(names) - (names[:1] in (["self"], ["cls"]))


PATHS = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
OTHERS = [path for folder in ("tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
COMPILED = sorted((ROOT / "model_runtime").rglob("*.[ch]"))
CLIENTS = [
    path
    for written in ("vscode/src/*.ts", "vscode/test/*.ts", "neovim/**/*.lua")
    for path in sorted((ROOT / "editor_clients").glob(written))
]
ALL = [*PATHS, *COMPILED, *CLIENTS]


@cache
def lines_of_files() -> dict[str, int]:
    return {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in ALL}


@cache
def all_functions() -> dict[str, Function]:
    return {name: function for path in PATHS for name, function in functions(path).items()}


@pytest.mark.parametrize("package", ["efim_ls", "model_runtime", "editor_clients"])
def test_the_package_is_looked_at(package: str) -> None:
    assert any(name.startswith(package) for name in all_functions())


@pytest.mark.parametrize("ending", [".c", ".ts", ".lua"])
def test_what_is_not_python_is_looked_at(ending: str) -> None:
    assert any(name.endswith(ending) for name in lines_of_files())


def test_a_session_has_few_methods() -> None:
    methods = [name for name in all_functions() if name.startswith("efim_ls/session/session.py:")]
    assert len(methods) <= MOST_METHODS_OF_A_SESSION


def test_the_product_grows_no_longer() -> None:
    paths = [path for path in PATHS if path.relative_to(ROOT).parts[0] in PRODUCT]
    lines = sum(lines_of_files()[str(path.relative_to(ROOT))] for path in paths)
    print(f"lines of Python in the product: {lines:,} of at most {MOST_LINES_OF_THE_PRODUCT:,}")
    assert lines <= MOST_LINES_OF_THE_PRODUCT


def test_few_private_functions_have_a_single_use() -> None:
    uses = [
        count
        for path in PATHS
        if path.relative_to(ROOT).parts[0] in PRODUCT
        for text in [path.read_text("utf-8")]
        for node in functions(path).values()
        if node.name.startswith("_") and not node.name.startswith("__")
        for count in [len(re.findall(rf"\b{node.name}\b", text)) - 1]
    ]
    share = uses.count(1) / len(uses)
    print(f"private functions with a single use: {share:.1%} of {len(uses):,}, at most {MOST_USED_ONCE:.0%}")
    assert share <= MOST_USED_ONCE


def test_no_file_is_too_long() -> None:
    assert {name: lines for name, lines in lines_of_files().items() if lines > LONGEST_FILE} == {}


def test_no_folder_has_too_many_files() -> None:
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in [*PATHS, *OTHERS])
    assert {folder: files for folder, files in folders.items() if files > MOST_FILES} == {}


def test_no_function_is_too_long() -> None:
    lengths = {name: length(function) for name, function in all_functions().items()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_no_function_takes_too_many_parameters() -> None:
    counts = {name: parameters(function) for name, function in all_functions().items()}
    assert {name: count for name, count in counts.items() if count > MOST_PARAMETERS} == {}


def test_no_two_files_of_tests_are_one_module() -> None:
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    assert [name for name, files in Counter(path.name for path in tests).items() if files > 1] == []


@pytest.mark.parametrize("packages", [PRODUCT, ("efim_lab",), ("editor_clients",)])
def test_a_public_class_name_is_unique(packages: tuple[str, ...]) -> None:
    names = Counter(
        node.name
        for path in PATHS
        if path.relative_to(ROOT).parts[0] in packages
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_the_embedded_models_weights_stay_small() -> None:
    weights = [*(ROOT / "model_runtime/embedded").glob("*/model.safetensors")]
    sizes = {path.parent.name: path.stat().st_size for path in weights}
    assert sizes and all(size <= MOST_WEIGHTS.get(name, MOST_OTHER_WEIGHTS) for name, size in sizes.items())
