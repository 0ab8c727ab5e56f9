"""Where a repository is measured: names that come from the project, classes of lines, and chunks."""

from __future__ import annotations

import random
import re
import tomllib
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.studies.repository.places import (
    FEWEST_TOKENS,
    KINDS,
    MOST_TOKENS,
    Project,
    choose_places,
    classify_lines,
    poisson,
)
from efim_lab.studies.repository.project_names import project_uses
from efim_lab.studies.repository.syntax import PythonSource

GOLDEN = Path(__file__).parents[2] / "golden/repository/shop.toml"
FILES: list[dict[str, Any]] = tomllib.loads(GOLDEN.read_text("utf-8"))["file"]
CLASSES = {"P": "inproject", "F": "infile", "C": "common"}


def marked(text: str) -> str:
    """A golden file with its marks, without the classes of its lines."""
    return "".join(line[2:] + "\n" for line in text.split("\n")[:-1])


DOCUMENTS = [CodeDocument(file["path"], re.sub("[├┤‹›]", "", marked(file["text"]))) for file in FILES]
PROJECT = Project(DOCUMENTS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["path"])
def test_names_from_the_project_are_found_by_imports(file: dict[str, Any]) -> None:
    source = PROJECT.sources[file["path"]]
    text = source.document.text
    for use in reversed(found := project_uses(source, PROJECT.modules)):
        first = use.name not in {earlier.name for earlier in found if earlier.start < use.start}
        end = use.start + len(use.last)
        text = f"{text[: use.start]}{'‹├'[first]}{use.last}{'›┤'[first]}{text[end:]}"
    assert text == marked(file["text"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["path"])
def test_lines_have_classes(file: dict[str, Any]) -> None:
    found = classify_lines(PROJECT.sources[file["path"]], PROJECT.modules)
    said = [CLASSES.get(line[:1]) for line in file["text"].split("\n")[:-1]]
    assert [found.get(row) for row in range(len(said))] == said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["path"])
def test_first_uses_are_measured_by_the_rule(file: dict[str, Any]) -> None:
    places = [place for place in choose_places([DOCUMENTS], 99) if place.kind == "first use"]
    found = list[str]()
    for place in sorted(places, key=lambda place: place.cursor):
        if place.document.path == file["path"]:
            text, start = place.document.text, place.document.text.rfind("\n", 0, place.cursor) + 1
            assert place.text == text[: place.cursor] + text[place.cursor + len(place.target) :]
            found.append(f"{text[start : place.cursor]}├{place.target}┤")
    assert found == file.get("first_uses", [])


NAMES = st.sampled_from(["Item", "count", "order", "total"])
STATEMENTS = st.one_of(
    st.builds("{} = tools.{}({}, 1)".format, NAMES, NAMES, NAMES),
    st.builds("{} = {} + 1  # Item".format, NAMES, NAMES),
    st.builds("class {}:\n    value = tools.Item\n".format, NAMES),
    st.builds("def {}():\n    return '''{}\n'''\n".format, NAMES, NAMES),
    st.sampled_from(["", "from .tools import Item", "call(\n    Item, é)", "broken = ("]),
)
TEXTS = st.lists(STATEMENTS, max_size=30).map(lambda lines: "from . import tools\n" + "\n".join(lines))
TOOLS = CodeDocument("p/tools.py", "class Item: ...\ndef count(): ...\ndef order(): ...\ndef total(): ...\n")


@given(TEXTS, st.integers(1, 9))
def test_every_place_is_cut_out_of_its_document(text: str, count: int) -> None:
    documents = [CodeDocument("p/__init__.py", ""), TOOLS, CodeDocument("p/a.py", text)]
    places = choose_places([documents], 1000)
    for place in places:
        whole = place.document.text
        assert whole == place.text_at(len(place.target))
        assert place.text == whole[: place.cursor] + whole[place.cursor + len(place.target) :]
        assert place.target == place.target.strip() and place.target
        end = place.cursor + len(place.target)
        assert not whole[end : (whole + "\n").index("\n", end)].strip()
        assert place.lines == 1 or place.kind == "chunk"
        if place.kind == "first use":
            source = PythonSource.parse(place.document)
            assert source and whole.count(place.target) == 1
            row = whole.count("\n", 0, place.cursor)
            tokens = [token for token in source.by_row[row] if token.start >= place.cursor]
            assert FEWEST_TOKENS <= len(tokens) <= MOST_TOKENS
            assert sum(other < row and other not in source.import_rows for other in source.by_row) >= 10
            assert any(token.text in ("Item", "count", "order", "total") for token in tokens)
    fewer = choose_places([documents], count)
    for kind in KINDS:
        assert [p for p in fewer if p.kind == kind] == [p for p in places if p.kind == kind][:count]


def test_repositories_and_files_take_turns() -> None:
    code = "".join(f"name_{n} = {n}\n" for n in range(9))
    first = [CodeDocument(f"one/{name}.py", code) for name in "abc"]
    places = choose_places([first, [CodeDocument("two/d.py", code)]], 4, ["common"])
    assert [place.document.path[:3] for place in places] == ["one", "two", "one", "two"]
    assert len({place.document.path for place in places}) == 3
    assert choose_places([list(reversed(first))], 3, ["common"]) == choose_places([first], 3, ["common"])


@given(st.integers(0, 10_000))
def test_a_chunk_has_whole_lines(seed: int) -> None:
    rng = random.Random(seed)
    code = "\n".join(f"{'    ' * (n > 0)}pass_{rng.randint(0, 9)} = {n}" for n in range(1 + seed % 7))
    text = f"if pass_0:\n    {code}\n\n\nx = 1"
    for place in choose_places([[CodeDocument("p/a.py", text)]], 99, ["chunk"]):
        line = text[text.rfind("\n", 0, place.cursor) + 1 : place.cursor]
        assert not line.strip()
        assert f"{line}{place.target}" in text and (text + "\n").find(f"{place.target}\n", place.cursor) >= 0


def test_lengths_of_chunks_are_poissons() -> None:
    rng = random.Random(0)
    drawn = [poisson(rng, 3.0) for _ in range(20_000)]
    assert fmean(drawn) == pytest.approx(3.0, abs=0.05)
    assert fmean((n - 3.0) ** 2 for n in drawn) == pytest.approx(3.0, abs=0.15)
    assert drawn.count(0) / len(drawn) == pytest.approx(0.0498, abs=0.006)


@given(st.floats(0.01, 8.0), st.integers(0, 1 << 32))
def test_a_poisson_number_counts_the_factors_of_a_product(mean: float, seed: int) -> None:
    rng, product, count = random.Random(seed), 1.0, -1
    while product > exp(-mean):
        product *= rng.random()
        count += 1
    assert poisson(random.Random(seed), mean) == count
