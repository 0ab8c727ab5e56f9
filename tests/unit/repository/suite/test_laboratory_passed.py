"""What counts as a change of workshop and studies: their files, their tests, and what these import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.passed import ROOT, digest, sources

FILES = {
    "efim_lab/__init__.py": "",
    "efim_lab/gate/typing.py": "",
    "efim_lab/gate/commands/cli.py": "",
    "efim_lab/studies/paper.py": "",
    "efim_lab/workshop/kernel.c": "int one;",
    "efim_lab/workshop/train.py": "from shop.pen import Pen\nimport shop.ink.colour\nimport numpy",
    "tests/lab/test_train.py": "from tests.coins import COINS\nfrom efim_lab.workshop import train",
    "tests/coins.py": "from shop.till import Till",
    "shop/pen.py": "Pen = 1",
    "shop/till.py": "Till = 1",
    "shop/ink/__init__.py": "",
    "shop/ink/colour.py": "",
    "shop/other.py": "",
}
OTHERS = {"efim_lab/gate/typing.py", "shop/till.py", "shop/other.py"}
COUNTED = set(FILES) - OTHERS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_file_counts_if_a_room_has_or_imports_it(root: Path, name: str) -> None:
    before = digest(root, sources(root))
    with (root / name).open("a") as file:
        file.write("\n")
    assert (digest(root, sources(root)) != before) == (name in COUNTED)


def test_a_file_that_is_new_gone_or_renamed_counts(root: Path) -> None:
    kernel, seen = root / "efim_lab/workshop/kernel.c", set[str]()
    seen.add(digest(root, sources(root)))
    kernel.rename(kernel.with_name("other.c"))
    seen.add(digest(root, sources(root)))
    (root / "efim_lab/workshop/other.c").unlink()
    seen.add(digest(root, sources(root)))
    (root / "tests/lab/test_more.py").touch()
    seen.add(digest(root, sources(root)))
    assert len(seen) == 4


def test_this_laboratory_imports_the_runtime_and_its_tests_helpers() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in sources(ROOT)}
    assert {"model_runtime/prompt/tokenizer.py", "tests/models.py", "efim_lab/workshop/training/trainer.py"} <= names
