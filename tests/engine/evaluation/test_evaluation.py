"""Models measured through the engine: the prompts of all arms, how they are decoded, bits and reports."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate import evaluation
from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import held_out
from efim_lab.gate.evaluation.arms import ARMS, EFIM, FIM, SERVER, Arm
from efim_lab.gate.evaluation.measured_model import LINE, UNTIL_END, MeasuredModel
from efim_lab.gate.evaluation.places.cursors import Context, choose_places
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.decoder.linear import packed_format
from model_runtime.ids import Ids
from model_runtime.kv.arena import DenseArena
from model_runtime.prompt.prompt import HISTORY_BREAK, Prompt, build, heal
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import decoder_of
from tests.engine.evaluating import with_ngrams
from tests.models import CODE

CONTEXT = Context("x = 1\nimport os\n\n\n", "value = os.pa", "print(value)\n", 9)
BY_NAME = {arm.name: arm for arm in ARMS}
TEXT = st.text("ab _(=.é", max_size=30)


def prompt_of(arm: Arm, tokenizer: Tokenizer, context: Context = CONTEXT) -> Prompt:
    return arm.prompt(tokenizer, find_template(tokenizer), context)


@pytest.mark.parametrize(
    ("name", "prefix", "typed", "stub"),
    [
        ("FIM", "x = 1\nimport os\n\n\nvalue = os.pa", "", b""),
        ("FIM healed", "x = 1\nimport os\n\n\nvalue = os", "", b".pa"),
        ("EFIM", "x = 1\nimport os\n\n\nvalu", "e = os.pa", b""),
        ("EFIM line", "x = 1\n", "import os\n\n\nvalue = os.pa", b""),
        ("EFIM line healed", "x = 1\n", "import os\n\n\nvalue = os", b".pa"),
        ("server", "x = 1\n", "import os\n\n\nvalue = os", b".pa"),
        ("cache alone", "x = 1\n", "import os\n\n\nvalue = os", b".pa"),
    ],
)
def test_an_arms_prompt(name: str, prefix: str, typed: str, stub: bytes, tokenizer: Tokenizer) -> None:
    prompt = prompt_of(BY_NAME[name], tokenizer)
    spelled = f"<|fim_prefix|>{prefix}<|fim_suffix|>print(value)\n<|fim_middle|>{typed}"
    assert (tokenizer.decode(prompt.ids), prompt.stub) == (spelled, stub)
    assert BY_NAME[name].has_bits is (not stub)


@given(st.lists(TEXT, max_size=4), TEXT, TEXT, st.integers(1, 200))
def test_every_prompt_is_the_document(
    tokenizer: Tokenizer, lines: list[str], typed: str, tail: str, increment: int
) -> None:
    context = Context("".join(line + "\n" for line in lines), typed, tail, increment)
    before = context.head + typed
    for arm in ARMS:
        prompt = prompt_of(arm, tokenizer, context)
        head, rest = tokenizer.decode(prompt.ids).removeprefix("<|fim_prefix|>").split("<|fim_suffix|>")
        assert head + rest.removeprefix(tail + "<|fim_middle|>") + prompt.stub.decode() == before
        parts = [tokenizer.encode(tail), HISTORY_BREAK, *np.split(_without_tail(prompt), [prompt.size("head")])]
        np.testing.assert_array_equal(prompt.history, np.concatenate(parts))
        assert len(prompt.ids) == 3 + prompt.size("head") + prompt.size("tail") + prompt.size("typed")
        assert prompt.stub == b"" or prompt.stub.decode() == heal(tokenizer, typed)[1]
    published = prompt_of(EFIM, tokenizer, context)
    parts = (before[:-increment], before[-increment:])
    assert (published.size("head"), published.size("typed")) == tuple(len(tokenizer.encode(part)) for part in parts)


def _without_tail(prompt: Prompt) -> Ids:
    head, tail = prompt.size("head"), prompt.size("tail")
    return np.concatenate((prompt.ids[1 : 1 + head], prompt.ids[3 + head + tail :]))


@pytest.fixture(scope="module")
def caching(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with n-grams."""
    return with_ngrams(folder, tmp_path_factory.mktemp("caching") / "model")


def test_each_arm_is_decoded_as_it_says(folder: Path, caching: Path, tokenizer: Tokenizer) -> None:
    context = Context("alpha = beta_gamma\n" * 3, "alp", "", 1)
    template = find_template(tokenizer)
    alone = {arm.name: arm for arm in ARMS if MeasuredModel(folder).can(arm)}
    assert BY_NAME.keys() - alone.keys() == {"cache alone"}

    def answers(subject: MeasuredModel, names: Sequence[str]) -> list[str]:
        prompt = build(tokenizer, template, context.head, context.tail, context.typed)
        return [subject.complete(BY_NAME[name], prompt, LINE, 24) for name in names]

    model, plain = answers(MeasuredModel(folder), ["EFIM line healed", "server"])
    assert plain == model
    ours, mixed, counts = answers(MeasuredModel(caching), ["EFIM line healed", "server", "cache alone"])
    assert (ours, counts) == (model, "ha = beta_gamma")
    assert mixed == counts != model


def test_bits_are_those_of_the_models_own_distribution(caching: Path, tokenizer: Tokenizer) -> None:
    subject = MeasuredModel(caching)
    decoder = decoder_of(caching, packed_format())
    for arm in (FIM, EFIM, BY_NAME["EFIM line"]):
        prompt, middle = prompt_of(arm, tokenizer), subject.encode("th.join(a)")
        arena, bits = DenseArena(decoder.config, 512), 0.0
        logits = decoder.forward(prompt.ids, arena)[0]
        for token in middle:
            bits -= log2(float(torch.softmax(logits, -1)[token]))
            logits = decoder.forward(np.array([token], dtype=np.int32), arena)[0]
        assert len(middle) > 3
        assert subject.bits(prompt, middle) == pytest.approx(bits, rel=1e-3)
        assert subject.bits(prompt, middle) == pytest.approx(bits, rel=1e-3)  # again, from what the arena holds
        assert subject.bits(prompt, middle[:1]) < bits


def test_a_long_window_loses_its_first_lines(folder: Path) -> None:
    head = "".join(f"number_{i} = {i}\n" for i in range(200))
    context = Context(head, "x = ", "print(x)\n", 5)
    prompts = MeasuredModel(folder).prompts(context, ARMS, 100)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    kept = {tokenizer.decode(prompt.ids).split("number_", 1)[1].split("\n")[0] for prompt in prompts}
    assert len(kept) == 1 and f"number_{kept.pop()}\n" in head
    assert all("number_199 = 199" in tokenizer.decode(prompt.ids) for prompt in prompts)
    assert min(len(prompt.ids) for prompt in prompts) > 250


def test_the_longest_prompt_of_a_place_must_fit(folder: Path) -> None:
    context, subject = Context("number = 1\n" * 300, "x = ", "", 5), MeasuredModel(folder)

    def lengths(room: int) -> list[int]:
        return [len(prompt.ids) for prompt in subject.prompts(context, ARMS, room)]

    fitting = lengths(100)
    assert min(fitting) < max(fitting)
    assert lengths(512 - max(fitting)) == fitting
    assert max(lengths(512 - max(fitting) + 1)) < max(fitting)


def test_a_context_too_short_is_told(folder: Path) -> None:
    with pytest.raises(WorkError, match="a context of 512 tokens is too short: use a model with a longer"):
        MeasuredModel(folder).prompts(CONTEXT, ARMS, 500)


def test_the_end_token_or_the_limit_ends_a_span() -> None:
    assert UNTIL_END.cut("a\n\n\n\n\nb\n\n\n") is None
    assert LINE.cut("a\n") == 1


DOCUMENTS = [CodeDocument("code.py", CODE)]


def test_a_report_has_every_arm_at_every_place(caching: Path) -> None:
    told: list[tuple[str, int, int]] = []
    report = evaluation.measure(caching, DOCUMENTS, 4, lambda *progress: told.append(progress))
    assert told == [(str(caching), done, 4) for done in range(5)]
    assert (report.model, report.lines) == (str(caching), 4)
    assert list(report.arms) == ["heuristic", *BY_NAME]
    with_bits = {name for name, figures in report.arms.items() if figures.bits_per_character}
    assert with_bits == {"FIM", "EFIM", "EFIM line"}
    with_costs = {name for name, figures in report.arms.items() if figures.recomputed}
    assert with_costs == {"FIM", "FIM healed", "EFIM", "EFIM line", "EFIM line healed"}
    exact = [report.arms[name].exact.value for name in ("EFIM", "FIM")]
    assert report.efim_minus_fim.value == pytest.approx(exact[0] - exact[1])
    assert evaluation.table(evaluation.measure(caching, DOCUMENTS, 4)) == evaluation.table(report)


class OneRight:
    """A subject that completes well in two arms only, and notes the room it is asked for."""

    rooms: list[int] = []

    def __init__(self, _folder: Path) -> None:
        self.rooms.clear()

    def can(self, _arm: Arm) -> bool:
        return True

    def prompts(self, _context: Context, arms: Sequence[Arm], room: int) -> list[None]:
        self.rooms.append(room)
        return [None] * len(arms)

    def encode(self, text: str) -> list[int]:
        return [0] * len(text)

    def bits(self, _prompt: None, middle: list[int]) -> float:
        return 3.0 * len(middle)

    def complete(self, arm: Arm, _prompt: None, _rule: object, _limit: int) -> str:
        return {"EFIM": "x", "server": "x"}.get(arm.name, "y")


def test_each_answer_counts_for_its_own_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MeasuredModel", OneRight)
    monkeypatch.setattr(held_out, "retype", lambda *_: {"EFIM": [1, 2, 9]})
    report = evaluation.measure(EMBEDDED, [CodeDocument("a.py", "x\n")])
    exact = {name: figures.exact.value for name, figures in report.arms.items() if figures.exact.value}
    assert exact == {"EFIM": 1.0, "server": 1.0}
    assert (report.model, report.efim_minus_fim.value, OneRight.rooms) == ("embedded", 1.0, [96])
    bits = report.arms["FIM"].bits_per_character
    assert bits is not None and bits.value == 3.0
    costs = {name: figures.recomputed_median for name, figures in report.arms.items() if figures.recomputed}
    assert costs == {"EFIM": 2}
    assert report.samples[0].completion == "x"
    long_line = [CodeDocument("a.py", f"{'x' * 300}\n")]
    evaluation.measure(EMBEDDED, long_line)
    assert OneRight.rooms == [max(96, len(choose_places(long_line, 1)[0].rest))]


def test_samples_are_the_first_ten_places_with_the_servers_suggestions(caching: Path) -> None:
    report = evaluation.measure(caching, DOCUMENTS, 11)
    places, subject = choose_places(DOCUMENTS, 10), MeasuredModel(caching)
    prompts = [subject.prompts(place.context, ARMS, 96)[ARMS.index(SERVER)] for place in places]
    suggested = [subject.complete(SERVER, prompt, LINE, 96) for prompt in prompts]
    assert [(s.typed, s.rest) for s in report.samples] == [(p.context.typed, p.rest) for p in places]
    assert [sample.completion for sample in report.samples] == suggested
    assert evaluation.samples(report).count("\n") == 11


def test_data_without_a_line_is_refused(folder: Path) -> None:
    with pytest.raises(WorkError, match=r"no line of code: name a heldout\.jsonl"):
        evaluation.measure(folder, [CodeDocument("a.py", "\n \n")])
