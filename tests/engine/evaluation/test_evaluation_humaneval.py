"""HumanEval-Infilling on tasks of our own."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.arms import Arm
from efim_lab.gate.evaluation.humaneval import tasks as humaneval
from efim_lab.gate.evaluation.measured_model import LINE, UNTIL_END
from efim_lab.gate.evaluation.places.cursors import Context
from model_runtime.checkpoint.embedded import EMBEDDED
from tests.engine.evaluating import ONE, TWO, WRONG, task, write_tasks


class Scripted:
    """A subject that says the same whatever it is asked, and remembers how it was asked."""

    def __init__(self, said: str) -> None:
        self.said = said
        self.asked: list[tuple[Context, str, object, int]] = []
        self._context = Context("", "", "", 1)

    def prompts(self, context: Context, arms: Sequence[Arm], room: int) -> list[None]:
        assert room == 128
        self._context = context
        return [None] * len(arms)

    def complete(self, arm: Arm, _prompt: None, rule: object, limit: int) -> str:
        self.asked.append((self._context, arm.name, rule, limit))
        return self.said


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    subject = Scripted("    x = 5")
    monkeypatch.setattr(humaneval, "MeasuredModel", lambda _folder: subject)
    return subject


def test_the_share_of_programs_that_pass(scripted: Scripted) -> None:
    tasks = {humaneval.SINGLE_LINE: [ONE, TWO, WRONG], humaneval.RANDOM_SPAN: [ONE]}
    told: list[tuple[str, int, int]] = []
    passed = humaneval.measure(EMBEDDED, tasks, lambda *progress: told.append(progress))
    assert list(passed) == ["single line", "random span"]
    for arm in ("FIM", "EFIM", "server"):
        assert passed["single line"][arm].value == pytest.approx(2 / 3)
        assert passed["random span"][arm].value == 0.0  # "x = 5    return 1": no line break is added
    assert told[:4] == [("embedded, single line", done, 3) for done in range(4)]
    rules = [(name, rule, limit) for _, name, rule, limit in scripted.asked]
    assert rules[:3] == [("FIM", LINE, 128), ("EFIM", LINE, 128), ("server", LINE, 128)]
    assert rules[-1] == ("server", UNTIL_END, 128)


def test_a_hole_is_shown_with_all_of_its_surroundings(scripted: Scripted) -> None:
    scripted.said = "+ 1"
    span = task("f", "def f():\n    a = 1 ", "\n    return a\n", "assert candidate() == 2")
    passed = humaneval.measure(EMBEDDED, {humaneval.RANDOM_SPAN: [span]})
    assert passed["random span"]["server"].value == 1.0
    context = scripted.asked[0][0]
    assert (context.head, context.typed, context.tail) == ("def f():\n", "    a = 1 ", "\n    return a\n")


def test_tasks_are_read(tmp_path: Path) -> None:
    found = humaneval.read(write_tasks(tmp_path))
    assert list(found) == ["single line", "multi-line", "random span"]
    assert found[humaneval.SINGLE_LINE] == found[humaneval.RANDOM_SPAN] == [ONE, WRONG]
    assert sorted(found[humaneval.MULTI_LINE], key=[ONE, WRONG].index) == [ONE, WRONG]


def test_holes_of_several_lines_begin_and_end_at_single_ones() -> None:
    lines = ["    a = 1\n", "    b = 2\n", "    return a + b\n"]
    whole = ["def f():\n", *lines]
    single = [
        task("f", "".join(whole[: at + 1]), "".join(whole[at + 2 :]), "assert candidate() == 3") for at in range(3)
    ]
    found = humaneval.multi_line([*single, ONE])
    assert [len(each.prompt.splitlines()) for each in found[:-1]] == [1, 1, 1, 2, 2, 3]
    assert [each.suffix for each in found[:3]] == ["".join(lines[1:]), lines[2], ""]
    assert found[-1] == ONE


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, r"has no HumanEval-SingleLineInfilling\.jsonl\.gz: github\.com/openai/human-eval-infilling has it"),
        (b"plain", "is damaged .*: fetch it again"),
        (gzip.compress(b"{}\n"), "is damaged"),
        (gzip.compress(b"[1]\n"), "is damaged"),
        (gzip.compress(b"x" * 999)[:20], "is damaged"),
        (gzip.compress(b"x" * 999)[:10] + b"\xff" * 20, "is damaged"),
        (gzip.compress(b""), "has no task"),
    ],
    ids=["missing", "not gzip", "no field", "no object", "cut off", "overwritten", "empty"],
)
def test_tasks_that_cannot_be_read_are_refused(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    path = tmp_path / humaneval.FILES[humaneval.SINGLE_LINE]
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(WorkError, match=complaint):
        humaneval.read(tmp_path)
