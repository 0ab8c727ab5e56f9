"""Prompts of a small file, and models that say something canonical after them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from model_runtime.cancel import NEVER, Cancel
from model_runtime.checkpoint.config import read_config
from model_runtime.decoder.any_decoder import CHUNK
from model_runtime.engine.drafts import NO_DRAFT, PassCosts
from model_runtime.engine.engine import GenerateJob, Generation
from model_runtime.engine.stops import Rule
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.prompt.prompt import Prompt, build, heal
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.doubles import ENDLESS, Log, Scripted, Watched
from tests.models import CODE

HEAD = CODE[: CODE.index("def write")]
TAIL = CODE[CODE.index("def total") :]
A, B, C = FrameId("a"), FrameId("b"), FrameId("c")
TIE = 1e-4  # two tokens whose scores are this close are equally good


class Eager(PassCosts):
    """Drafts whatever there is, and works ahead in the largest chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.background_chunk = CHUNK

    def record(self, rows: int, ms: float) -> None:
        super().record(rows, ms)
        self.background_chunk = CHUNK

    def best_draft_length(self, chance: float, most: int) -> int:
        return most


class Shy(PassCosts):
    """Drafts nothing, and computes prompts in the largest chunks."""

    def best_draft_length(self, chance: float, most: int) -> int:
        return 0

    def record(self, rows: int, ms: float) -> None:
        super().record(rows, ms)
        self.chunk = CHUNK


def paced(engine: Watched, costs: PassCosts) -> Watched:
    """The engine, which from now on takes passes to cost what it is told."""
    engine.context.costs = costs
    return engine


def prompt_of(tokenizer: Tokenizer, typed: str, head: str = HEAD, tail: str = TAIL) -> Prompt:
    return build(tokenizer, find_template(tokenizer), head, tail, typed)


def generate(
    engine: Watched,
    prompt: Prompt,
    rule: Rule = ENDLESS,
    limit: int = 12,
    owner: FrameId = A,
    cancel: Cancel = NEVER,
    expected: Ids = NO_DRAFT,
) -> Generation:
    return engine.generate(GenerateJob(owner, prompt, rule, limit, expected), cancel)


def scripted(folder: Path, prompt: Prompt, script: Sequence[int], tokenizer: Tokenizer) -> Watched:
    """An engine whose model says these tokens after the prompt, then a letter for ever."""
    return Watched(Scripted(read_config(folder), len(prompt.ids), script), tokenizer)


def canonical(tokenizer: Tokenizer, typed: str, suggestion: str) -> list[int]:
    """The tokens that go on with a line and end it, as they would be in a file."""
    done, line = tokenizer.encode(heal(tokenizer, typed)[0]).tolist(), tokenizer.encode(typed + suggestion + "\n")
    assert line[: len(done)].tolist() == done
    return line[len(done) :].tolist()


def bytewise(tokenizer: Tokenizer, text: str) -> list[int]:
    """One token for each byte of a text."""
    return [tokenizer.token_bytes.index(bytes([byte])) for byte in text.encode()]


def spelled(log: Log, tokenizer: Tokenizer) -> bytes:
    """What was said, the unfinished word with it."""
    return b"".join(tokenizer.token_bytes[token] for token in log.tokens)


def after(questions: int) -> Cancel:
    """True from the question of this number on."""
    asked = iter(range(questions))
    return Cancel(lambda: next(asked, None) is None)


def assert_same_tokens(log: Log, cold: Log) -> None:
    """The same tokens as an engine said that had to choose each of them."""
    assert len(cold.tokens) == len(cold.gaps)
    for token, other, gap in zip(log.tokens, cold.tokens, cold.gaps, strict=False):
        if token != other:
            assert 0 <= gap < TIE, "only a genuine tie may fall another way"
            return
    assert log.tokens == cold.tokens
    assert log.made is not None and cold.made is not None
    assert (log.made.text, log.made.complete) == (cold.made.text, cold.made.complete)
