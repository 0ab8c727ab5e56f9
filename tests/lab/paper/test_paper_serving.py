"""The EFIM paper's experiment: several users at one model get what each would get alone, and reuse what they can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from efim_lab.studies.paper import batch_server
from efim_lab.studies.paper.batch_server import Answer, BatchServer
from efim_lab.studies.paper.prompts import EFIM_REUSE, FIM_REUSE, NO_REUSE, SCHEMES, Scheme, cut_workload
from model_runtime.decoder.any_decoder import Span
from model_runtime.decoder.decoder import Decoder
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.arena import DenseArena
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import CODE

ROUNDS, TOKENS = 4, 9
TEXTS = [CODE[start : start + size] for start, size in ((0, 500), (300, 333), (700, 620), (900, 410))]


class Counting:
    """A decoder that keeps the number of rows of each span of each pass."""

    batch_invariant, top_tokens = True, None

    def __init__(self, decoder: Decoder) -> None:
        self.config, self.rotations = decoder.config, decoder.rotations
        self.forward, self.chunk = decoder.forward, decoder.chunk
        self.passes = list[list[int]]()
        self._decoder = decoder

    def forward_spans(self, spans: Sequence[Span]) -> torch.Tensor:
        """As the decoder does."""
        self.passes.append([len(span.ids) for span in spans])
        return self._decoder.forward_spans(spans)


@pytest.fixture
def counting(decoder: Decoder) -> Counting:
    return Counting(decoder)


def prompts(scheme: Scheme, tokenizer: Tokenizer) -> list[list[Ids]]:
    template = find_template(tokenizer)
    return [scheme.prompts(tokenizer, template, cut_workload(text, ROUNDS)) for text in TEXTS]


def served(decoder: Counting, scheme: Scheme, asked: Sequence[Sequence[Ids]], tokens: int = TOKENS) -> list[Answer]:
    arenas = [DenseArena(decoder.config, decoder.config.context) for _ in asked]
    server = BatchServer(decoder, arenas, asked, tokens, scheme.reuses)
    while not server.done:
        before = len(server.answers)
        assert server.step() == len(server.answers) - before
    assert len(server.answers) == sum(map(len, asked))
    assert server.generated == tokens * len(server.answers)
    return server.answers


def of_user(answers: Sequence[Answer], user: int) -> list[Answer]:
    return [answer for answer in answers if answer.user == user]


def alone(decoder: Decoder, prompt: Ids, tokens: int) -> tuple[int, ...]:
    """The likeliest tokens, computed one by one in an arena of their own."""
    arena, said = DenseArena(decoder.config, decoder.config.context), list[int]()
    new = prompt
    while len(said) < tokens:
        said.append(int(decoder.forward(new, arena)[0].argmax()))
        new = np.array(said[-1:], dtype=np.int32)
    return tuple(said)


@pytest.mark.parametrize("chunk", [7, 64, 1024])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_users_get_what_each_would_get_alone(
    scheme: Scheme,
    chunk: int,
    decoder: Decoder,
    counting: Counting,
    tokenizer: Tokenizer,
) -> None:
    counting.chunk = chunk
    asked = prompts(scheme, tokenizer)
    answers = served(counting, scheme, asked)
    for user, each in enumerate(asked):
        assert [answer.tokens for answer in of_user(answers, user)] == [alone(decoder, ids, TOKENS) for ids in each]
    assert max(map(sum, counting.passes)) <= max(chunk, len(TEXTS))
    assert all(map(all, counting.passes))  # no span is empty


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_what_is_reused_is_what_the_last_prompt_and_its_answer_have_in_common_with_this_one(
    scheme: Scheme, counting: Counting, tokenizer: Tokenizer
) -> None:
    asked = prompts(scheme, tokenizer)
    answers = served(counting, scheme, asked)
    computed = 0
    for user, each in enumerate(asked):
        held = np.zeros(0, dtype=np.int32)
        for ids, answer in zip(each, of_user(answers, user), strict=True):
            assert answer.prompt == len(ids)
            assert answer.reused == (common_prefix(held, ids) if scheme.reuses else 0)
            held = np.concatenate((ids, np.array(answer.tokens[:-1], dtype=np.int32)))
            computed += len(ids) - answer.reused + TOKENS - 1
    assert sum(map(sum, counting.passes)) == computed


def test_efim_reuses_far_more_than_fim(counting: Counting, tokenizer: Tokenizer) -> None:
    reused = {
        scheme: sum(answer.reused for answer in served(counting, scheme, prompts(scheme, tokenizer)))
        for scheme in SCHEMES
    }
    assert reused[NO_REUSE] == 0 < 2 * reused[FIM_REUSE] < reused[EFIM_REUSE]


def test_prompts_go_first_and_the_users_next_tokens_share_a_pass(counting: Counting, tokenizer: Tokenizer) -> None:
    counting.chunk = 100
    asked = prompts(NO_REUSE, tokenizer)
    served(counting, NO_REUSE, asked)
    expected = list[int]()
    for number in range(ROUNDS):
        full, rest = divmod(sum(len(each[number]) for each in asked), 100)
        expected += [100] * full + [rest] * bool(rest) + [len(asked)] * (TOKENS - 1)
    assert list(map(sum, counting.passes)) == expected
    assert counting.passes.count([1] * len(asked)) == ROUNDS * (TOKENS - 1)


def test_a_prompt_that_is_held_already_costs_its_last_token(counting: Counting, tokenizer: Tokenizer) -> None:
    [ids, *_], *_ = prompts(EFIM_REUSE, tokenizer)
    first, again = served(counting, EFIM_REUSE, [[ids, ids]])
    assert (first.reused, again.reused) == (0, len(ids) - 1)
    assert first.tokens == again.tokens


def test_answers_of_one_token_take_no_pass_of_their_own(counting: Counting, tokenizer: Tokenizer) -> None:
    asked = [each[:1] for each in prompts(FIM_REUSE, tokenizer)]
    answers = served(counting, FIM_REUSE, asked, tokens=1)
    assert [len(answer.tokens) for answer in answers] == [1] * len(asked)
    assert sum(map(sum, counting.passes)) == sum(len(ids) for [ids] in asked)


def test_a_run_begins_with_nothing_kept(counting: Counting, tokenizer: Tokenizer) -> None:
    arena, [asked, *_] = DenseArena(counting.config, counting.config.context), prompts(EFIM_REUSE, tokenizer)
    for _ in range(2):
        server = BatchServer(counting, [arena], [asked], TOKENS, reuses=True)
        while not server.done:
            server.step()
        assert server.answers[0].reused == 0 < server.answers[1].reused


def test_the_clock_runs_in_passes_only(
    counting: Counting, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([5.0, 6.0, 100.0, 102.0, 1000.0, 1004.0])  # passes of 1, 2 and 4 seconds
    monkeypatch.setattr(batch_server, "perf_counter", lambda: next(now))
    counting.chunk = 1000
    asked = [each[:2] for each in prompts(FIM_REUSE, tokenizer)[:2]]
    made = BatchServer(
        counting, [DenseArena(counting.config, 512) for _ in asked], [asked[0], asked[1][:1]], 1, reuses=True
    )
    assert [made.step(), made.step(), made.done] == [2, 1, True]
    assert [(answer.user, answer.seconds) for answer in made.answers] == [(0, 1.0), (1, 1.0), (0, 2.0)]
    assert made.seconds == 3.0
