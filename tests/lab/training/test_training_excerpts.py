"""Training samples with excerpts of other files: what is chosen, and what each token may see."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training.samples import bpe
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packages import PackageMates, by_package
from efim_lab.workshop.training.samples.sample_maker import SampleMaker, Shares
from tests.lab.training.test_training_samples import TOKENIZER, decoded

SHAPES = '''import math


class Circle:
    """Round."""

    def __init__(
        self,
        radius: float,
    ) -> None:
        self.radius = radius

    def area(self) -> float:
        return math.pi * self.radius**2


def unit() -> Circle:
    return Circle(1)
'''
USER = """from pack.shapes import (
    Circle,
    unit,
)

def total(circles: list[Circle]) -> float:
    return sum(circle.area() for circle in circles)
"""
DOCUMENTS = [
    CodeDocument("pack-1.0/pack/shapes.py", SHAPES),
    CodeDocument("pack-1.0/pack/use.py", USER),
    CodeDocument("other-2.0/other/shapes.py", "class Circle:\n    pass\n"),
]
OTHERS = PackageMates(by_package(DOCUMENTS)["pack-1.0"], DOCUMENTS[1])
ALWAYS = Shares(plain=0, fim=0, fragments=0, efim=0, served=0, repository=1, whole=0)
FILE, REPOSITORY, PREFIX, SUFFIX, MIDDLE, END = (
    bpe.ID[name] for name in (bpe.FILE, bpe.REPOSITORY, bpe.PREFIX, bpe.SUFFIX, bpe.MIDDLE, bpe.END)
)


def test_definitions_are_the_signatures_of_imported_names_that_the_window_uses():
    (excerpt,) = OTHERS.package.definitions(OTHERS.document, USER[USER.index("def total") :])
    assert excerpt.path == "pack/shapes.py"
    assert excerpt.text == (
        "class Circle:\n    def __init__(\n        self,\n        radius: float,\n    ) -> None:\n"
        "    def area(self) -> float:\n"
    )
    assert not OTHERS.package.definitions(OTHERS.document, "x = 1\n")


@given(st.integers(0, 2**32).map(random.Random))
def test_chunks_are_text_of_other_files_of_the_same_package(rng: random.Random):
    chunk = OTHERS.package.chunk(OTHERS.document, "Circle area", rng)
    assert chunk is not None and chunk.path == "pack/shapes.py" and chunk.text and chunk.text in SHAPES
    alone = PackageMates(by_package(DOCUMENTS)["other-2.0"], DOCUMENTS[2])
    assert alone.excerpts("Circle", "Circle", rng) == []


@given(st.integers(0, 2**32).map(random.Random), st.integers(60, 600))
def test_excerpts_precede_the_prompt_and_leave_it_most_of_the_room(rng: random.Random, limit: int):
    ids = SampleMaker(TOKENIZER, ALWAYS, limit).repository(USER, rng, OTHERS)
    if ids is None:
        return
    assert len(ids) <= limit and ids[-1] == END
    front = ids[: ids.index(PREFIX)]
    assert len(front) <= 0.4 * limit
    assert not front or front[0] == FILE
    assert decoded(front).count("pack/shapes.py\n") == front.count(FILE)
    whole = SampleMaker(TOKENIZER, Shares(repository=1, whole=1), limit).repository(USER, rng, OTHERS)
    assert whole is None or (whole[0] == REPOSITORY and "pack/use.py\n" in decoded(whole[: whole.index(PREFIX)]))


def prompt(rng: random.Random, opening: list[int]) -> list[int]:
    def part() -> list[int]:
        return [rng.randint(100, 200) for _ in range(rng.randint(0, 5))]

    return [*opening, PREFIX, *part(), SUFFIX, *part(), MIDDLE, *part(), END]


@pytest.mark.parametrize("before", [[], [101, 102, END]])
@given(rng=st.integers(0, 2**32).map(random.Random))
def test_excerpts_and_window_see_themselves_and_from_the_middle_on_all_is_seen(before: list[int], rng: random.Random):
    front = [FILE, 101, 102, FILE, 103]
    for opening in ([], front, [REPOSITORY, 104, *front]):
        sample, start = prompt(rng, opening), len(before)
        row = [*before, *sample, 150, 151]
        starts = sample_starts(torch.tensor([row]))[0].tolist()
        middle, window = row.index(MIDDLE), start + len(opening)
        assert starts[:start] == [0] * start
        assert starts[middle : start + len(sample)] == [start] * (len(sample) - middle + start)
        assert starts[start + len(sample) :] == [start + len(sample)] * 2
        if opening[:1] == [REPOSITORY]:
            assert starts[start:middle] == [start] * (middle - start)
        else:
            wanted = [start + at for at in (0, 0, 0, 3, 3)][: len(opening)] + [window] * (middle - window)
            assert starts[start:middle] == wanted
