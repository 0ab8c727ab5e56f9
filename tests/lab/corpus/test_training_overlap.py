"""Runs of words that held-out code shares with the text to train on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training import command
from efim_lab.workshop.training.corpus.overlap import RUN, overlaps, report

texts = st.lists(st.sampled_from("ab"), max_size=40).map(" ".join)


def runs(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)]


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=3))
def test_runs_are_counted_as_by_hand(learnt: list[str], held_out: list[str]) -> None:
    known = {run for text in learnt for run in runs(text)}
    found = overlaps(documents(learnt), documents(held_out))
    wanted = [(len(runs(text)), sum(run in known for run in runs(text))) for text in held_out]
    assert [(each.runs, each.known) for each in found] == wanted


def documents(some: list[str]) -> list[CodeDocument]:
    return [CodeDocument(f"{at}.py", text) for at, text in enumerate(some)]


def test_words_and_signs_count_one_by_one() -> None:
    copied = "total = price * (1 + rate) - cut()"
    (found,) = overlaps(documents([f"x\n{copied}\ny"]), documents([copied]))
    assert (found.runs, found.known) == (1, 1)


def test_the_report_names_the_documents_that_share_most() -> None:
    line = " ".join("abcdefghijklm")
    found = overlaps(documents([line]), documents([line, f"{line} n", "other"]))
    first, *table = report(found).split("\n")
    assert first.startswith("66.67% of 3 runs of 13 words stand in the text to train on; 2 of 3 documents share half")
    assert [row.replace(" ", "") for row in table[3:]] == ["|0.py|1|100.0%|", "|1.py|2|50.0%|"]


def test_the_command_reads_a_corpus_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = " ".join("abcdefghijklm")
    (tmp_path / "train.jsonl").write_text(f'{{"path": "a.py", "text": "{line}"}}\n')
    code = tmp_path / "code/package"
    code.mkdir(parents=True)
    (code / "b.py").write_text(f"{line} n")
    assert command.main(["overlap", "--corpus", str(tmp_path), "--data", str(code.parent)]) == 0
    assert "50.00% of 2 runs" in capsys.readouterr().out
