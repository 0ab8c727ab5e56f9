"""A figure that stands on several pages is the same on all of them: the first page is the source of the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
VSCODE, QUALITY, TYPESCRIPT = (
    "editor_clients/vscode/README.md",
    "docs/benchmarks/quality.md",
    "docs/benchmarks/languages.md",
)
# Where each figure stands; a pattern's group is the number. `\s` between words, since lines are wrapped.
FIGURES = {
    "MB of the light server on disk": [
        ("docs/install.md", r"^\| light \|.*\| about (\d+) MB \|$"), ("README.md", r"It\s+takes\s+(\d+)\s+MB"),
        ("README.md", r"\| (\d+) MB in all \|"), ("docs/faq.md", r"^About (\d+) MB on disk"),
        (VSCODE, r"and (\d+) MB on disk\)\. To look"),
        ("editor_clients/vscode/src/bundle.ts", r"about (\d+) MB on disk with the server"),
        ("editor_clients/vscode/media/install.md", r"and (\d+) MB on disk\. \*efim"),
        ("docs/install.md", r"^\| light, by VS Code \|.*\| (\d+) MB \|$"),
    ],
    "MB of a clone": [
        ("docs/install.md", r"`git clone --depth 1` fetches (\d+) MB"), ("README.md", r"\[(\d+) MB\]\(docs/install"),
        ("CONTRIBUTING.md", r"`git clone --depth 1` fetches (\d+) MB"),
    ],
    "MB of the history": [
        ("docs/install.md", r"full history is (\d+) MB"), ("CONTRIBUTING.md", r"full history is (\d+) MB"),
    ],
    "GB that `make test` installs": [
        ("CONTRIBUTING.md", r"`make test` ([\d.]+) GB"), ("README.md", r"`make test` ([\d.]+) GB"),
    ],
    "milliseconds of a typical key": [
        ("docs/benchmarks.md", r"\*\*([\d.]+) ms\*\*; from the key"), ("README.md", r"takes ([\d.]+) ms \("),
        ("README.md", r"\| \*\*([\d.]+)\*\*, a cold place"),
    ],
    "milliseconds from a key to its answer": [
        ("docs/benchmarks.md", r"from the key to the answer (\d+) ms"), ("README.md", r"\((\d+) ms with the way"),
    ],
    "milliseconds of a cold place": [
        ("docs/benchmarks.md", r"\*\*(\d+) ms\*\*; 18 ms after"),
        ("docs/benchmarks.md", r"The (\d+) ms are for a full"),
        ("README.md", r"\*\*a\s+cold\s+place\*\*\s+(\d+)\s+ms"), ("README.md", r"a cold place (\d+) \(measured\)"),
    ],
    "exact lines of Python in a project, %": [
        (QUALITY, r"^\| whole files, repository: rest of the line exact % .*\*\*([\d.]+)\*\*"),
        (VSCODE, r"finish\s+(\d+)\s+and\s+\d+\s+of\s+100"),
    ],
    "exact lines of TypeScript in a project, %": [
        (TYPESCRIPT, r"^\| whole files, repository: rest of the line exact % .*\*\*([\d.]+)\*\*"),
        (VSCODE, r"finish\s+\d+\s+and\s+(\d+)\s+of\s+100"),
    ],
    "keys saved in Python in a project, %": [
        (QUALITY, r"^\| typing, repository, `balanced`: keys saved %, whole .*\*\*([\d.]+)\*\*"),
        ("docs/benchmarks.md", r"(\d+) of 100 in a project"), (VSCODE, r"you\s+save\s+(\d+)\s+and\s+\d+\s+of\s+100"),
    ],
    "keys saved in Python in a file by itself, %": [
        (QUALITY, r"^\| typing, one file, `balanced`: keys saved %, whole .*\*\*([\d.]+)\*\*"),
        ("docs/benchmarks.md", r"project, (\d+) in a file by itself"),
        (VSCODE, r"is\s+\d+\s+and\s+\d+,\s+(\d+)\s+and\s+\d+"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_the_same_on_all_pages(figure: str) -> None:
    source, *others = (number_at(page, pattern) for page, pattern in FIGURES[figure])
    for other in others:
        decimals = len(other.partition(".")[2])
        assert float(other) == round(float(source), decimals), f"{figure}: {source} is quoted as {other}"


def number_at(page: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert found, f"{page} has no {pattern}"
    return found[1]
