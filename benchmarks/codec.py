"""What int8 blocks of keys and values lose: the embedded model's suggestions and next tokens at held-out cursors.

`python -m benchmarks.codec [DATA]`, where DATA is a folder of Python files that the model has not seen.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.table import show
from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation import held_out_data
from efim_lab.gate.evaluation.arms import served
from efim_lab.gate.evaluation.figures import metrics
from efim_lab.gate.evaluation.figures.intervals import Estimate, mean, proportion, ratio
from efim_lab.gate.evaluation.measured_model import LINE, MEASURED_OWNER
from efim_lab.gate.evaluation.places.cursors import Context, context_at, line_at, shuffled_lines
from efim_lab.gate.evaluation.report import cell
from efim_ls.completion.models.open import fit_budget
from efim_ls.completion.planning.window import Window
from efim_ls.settings import Settings
from kv_store.block import BLOCK_TOKENS
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.decoder import Decoder
from model_runtime.decoder.linear import packed_format
from model_runtime.engine.decode import DecodeContext
from model_runtime.engine.engine import Engine, GenerateJob
from model_runtime.engine.local import EngineParts, LocalEngine
from model_runtime.engine.ngrams import read_ngrams
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.codec import Floats, Form, KvCodec
from model_runtime.kv.layout import KvLayout
from model_runtime.kv.pool import Pool
from model_runtime.prompt.prompt import Prompt
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer

MIN_PROMPT_TOKENS = 1000  # little of a shorter prompt would be int8
CHUNK = 512  # tokens of a pass
RAW = "raw"
ENGINES = {"model": "the model alone", "mixture": "the model and its n-grams"}
SUGGESTION_COLUMNS = ("exact %", "less raw, points", "edit similarity %", "less raw, points", "as raw %")
TOKEN_COLUMNS = ("KL, 1e-6 bits", "p95", "max", "1e-6 bits lost a token", "same top token %", "bytes a token")
TIMED, TIMED_BLOCKS, ROUNDS = KvLayout.keys_and_values(24, 2, 64), 150, 7  # 59 MB of Qwen2.5-Coder 0.5B

Logs = npt.NDArray[np.float64]


class Variant(NamedTuple):
    """How to store blocks: the form by a block's first token and the sequence's length, and an int8 round trip."""

    form: Callable[[int, int], int]
    through: Callable[[Floats, int], Floats]


class Cursor(NamedTuple):
    """A cursor: the prompt that the server would build, the line's true rest, and its tokens after the prompt."""

    prompt: Prompt
    rest: str
    true: Ids


class Comparison(NamedTuple):
    """Suggestions by engine; for each true token the KL from raw, whether the top token is equal, the bits lost."""

    texts: Mapping[str, str]
    kl: Logs
    same: npt.NDArray[np.bool_]
    lost: Logs


class Subject:
    """The embedded model over one arena, with and without its n-grams; continues from any keys and values."""

    def __init__(self) -> None:
        """Load it as the server does."""
        config, settings = read_config(EMBEDDED), Settings()
        self.budget, self._limit = fit_budget(settings, config), settings.max_new_tokens
        self.shape = KvLayout.of(config)
        self.tokenizer = Tokenizer(EMBEDDED / "tokenizer.json")
        self.template = find_template(self.tokenizer)
        self.decoder = Decoder(config, read_weights(EMBEDDED, config), packed_format())
        self._arena = arena = DenseArena(config, config.context)
        pool, cache = Pool[Arena](lambda: arena, 1), read_ngrams(EMBEDDED)
        parts = EngineParts(DecodeContext.of(self.decoder, self.tokenizer, cache), pool, config.context)
        self._engines = {"model": LocalEngine(parts.with_ngrams(None)), "mixture": LocalEngine(parts)}

    def compute(self, ids: Ids) -> Floats:
        """Return the keys and values of a prompt, [2, layers, kv_heads, len(ids), head_dim]."""
        self._arena.truncate(0)
        for start in range(0, len(ids), CHUNK):
            self.decoder.forward(ids[start : start + CHUNK], self._arena)
        return np.stack([each[:, :, : len(ids)] for each in (self._arena.k, self._arena.v)])

    def complete(self, place: Cursor, kv: Floats) -> tuple[dict[str, str], Logs]:
        """Return suggestions by engine, and log2 probabilities [true, vocab], from KV of the prompt just computed."""
        for each, numbers in zip((self._arena.k, self._arena.v), kv, strict=True):
            each[:, :, : kv.shape[3]] = numbers
        texts = {name: self._suggest(engine, place.prompt) for name, engine in self._engines.items()}
        self._forget(place.prompt)
        row = np.concatenate((place.prompt.ids[-1:], place.true[:-1]))
        logits = self.decoder.forward(row, self._arena, len(row))
        return texts, torch.log_softmax(logits.double(), dim=-1).numpy() / np.log(2)

    def _suggest(self, engine: Engine, prompt: Prompt) -> str:
        self._forget(prompt)
        return engine.generate(GenerateJob(MEASURED_OWNER, prompt, LINE, self._limit), NEVER).text

    def _forget(self, prompt: Prompt) -> None:
        """Leave nothing in the arena that could answer without a pass: no logits, no earlier choices."""
        self._arena.truncate(len(prompt.ids) - 1)
        self._arena.answers = None


def measure(folder: Path | None = None, lines: int = 300) -> dict[str, object]:
    """Complete at up to `lines` cursors with long prompts, from keys and values stored in every variant.

    Figures are [value, low, high], 95 % intervals, except p95 and max. Raises WorkError if no file is long enough.
    """
    torch.set_num_threads(1)
    subject = Subject()
    places = list(islice(_places(subject, folder or Path(asyncio.__file__).parent), lines))
    if not places:
        raise WorkError(f"no prompt has {MIN_PROMPT_TOKENS} tokens: name a folder of longer files")
    ways = _variants(
        KvCodec(subject.shape, BLOCK_TOKENS, subject.decoder.rotations), KvCodec(subject.shape, BLOCK_TOKENS, None)
    )
    found = [_compare(subject, place, ways) for place in places]
    rests, lengths = [place.rest for place in places], [len(place.prompt.ids) for place in places]
    figures = {name: _figures(rests, [f[RAW] for f in found], [f[name] for f in found]) for name in ways}
    for name, way in ways.items():
        figures[name]["bytes a token"] = _bytes_per_token(KvCodec(subject.shape, BLOCK_TOKENS, None), way, lengths)
    _show(f"{len(places)} cursors, prompts of {min(lengths)} to {max(lengths)} tokens", figures)
    flat = {f"{way}: {name}": astuple(each) for way, of_way in figures.items() for name, each in of_way.items()}
    return {"cursors": len(places), "prompt_tokens": median(lengths), **flat, **_speed()}


def _places(subject: Subject, folder: Path) -> Iterator[Cursor]:
    """Yield a cursor in each line, in random order, if its prompt is long enough."""
    rng = random.Random(0)
    for document, row in shuffled_lines(held_out_data.read_held_out(folder), rng):
        text = document.text
        line, start = line_at(text, row)
        cursor = start + rng.randint(len(line) - len(line.lstrip()), len(line.rstrip()) - 1)
        context = _longest_window(subject, context_at(text, cursor, start + len(line) + 1, 0))
        prompt = served(subject.tokenizer, subject.template, context)
        if len(prompt.ids) >= MIN_PROMPT_TOKENS:
            rest = text[cursor : start + len(line)]
            yield Cursor(prompt, rest, subject.tokenizer.encode(prompt.stub.decode() + rest))


def _longest_window(subject: Subject, context: Context) -> Context:
    """Return the most of a text that the server sends: a head that has grown to its whole budget."""
    kept, tokens = len(context.head), 0
    for piece, count in reversed(subject.tokenizer.pieces(context.head)):
        if (tokens := tokens + count) > subject.budget.head:
            break
        kept -= len(piece)
    tail = Window(subject.budget, subject.tokenizer.pieces).tail(context.tail, 0)
    return replace(context, head=context.head[kept:], tail=tail)


def _variants(codec: KvCodec, as_rotated: KvCodec) -> dict[str, Variant]:
    """Return the variants: the first is the baseline, the second what the store does, the others show why."""

    def by(codec: KvCodec) -> Callable[[Floats, int], Floats]:
        return lambda kv, first: np.stack(codec.decode(codec.encode(kv, first, Form.INT8), first, Form.INT8))

    def per_token(kv: Floats, first: int) -> Floats:
        return np.stack([by(as_rotated)(pair, first)[1] for pair in (kv[::-1], kv)])  # keys in the place of values

    def ends_raw(first: int, length: int) -> int:
        return codec.forms_at((), first, length, Form.INT8)[0]

    return {
        RAW: Variant(lambda first, length: Form.RAW, by(codec)),
        "int8": Variant(ends_raw, by(codec)),
        "int8, no raw ends": Variant(lambda first, length: Form.INT8, by(codec)),
        "int8, keys as rotated": Variant(ends_raw, by(as_rotated)),
        "int8, keys per token": Variant(ends_raw, per_token),
    }


def _compare(subject: Subject, place: Cursor, ways: Mapping[str, Variant]) -> dict[str, Comparison]:
    computed = subject.compute(place.prompt.ids)
    completed = {name: subject.complete(place, _round_trip(computed, way)) for name, way in ways.items()}
    return {
        name: _comparison(completed[RAW][1], texts, logs, place.true) for name, (texts, logs) in completed.items()
    }


def _comparison(raw: Logs, texts: Mapping[str, str], logs: Logs, true: Ids) -> Comparison:
    less = raw - logs
    kl, lost = (np.exp2(raw) * less).sum(axis=1), less[range(len(true)), true]
    return Comparison(texts, kl, raw.argmax(axis=1) == logs.argmax(axis=1), lost)


def _round_trip(computed: Floats, way: Variant) -> Floats:
    """Return a sequence as its whole blocks restore it."""
    kv, length = computed.copy(), computed.shape[3]
    for first in _blocks(length):
        if way.form(first, length) == Form.INT8:
            block = kv[:, :, :, first : first + BLOCK_TOKENS]
            block[...] = way.through(block, first)
    return kv


def _blocks(length: int) -> range:
    return range(0, length - BLOCK_TOKENS + 1, BLOCK_TOKENS)


def _bytes_per_token(codec: KvCodec, way: Variant, lengths: Sequence[int]) -> Estimate:
    sizes = [float(sum(codec.size(way.form(first, n)) for first in _blocks(n))) for n in lengths]
    return ratio(sizes, [float(BLOCK_TOKENS * len(_blocks(n))) for n in lengths])


def _figures(rests: Sequence[str], raw: Sequence[Comparison], found: Sequence[Comparison]) -> dict[str, Estimate]:
    figures = _next_tokens(found)
    for engine in ENGINES:
        compared = _suggestions(rests, [each.texts[engine] for each in raw], [each.texts[engine] for each in found])
        figures |= {f"{engine}, {name}": estimate for name, estimate in compared.items()}
    return figures


def _suggestions(rests: Sequence[str], raw: Sequence[str], texts: Sequence[str]) -> dict[str, Estimate]:
    exact, exact_raw = (list(map(metrics.is_exact, each, rests)) for each in (texts, raw))
    similar, similar_raw = (list(map(metrics.similarity, each, rests)) for each in (texts, raw))
    return {
        "exact": proportion(exact),
        "exact less raw": mean([float(a) - b for a, b in zip(exact, exact_raw, strict=True)]),
        "as raw": proportion([a == b for a, b in zip(texts, raw, strict=True)]),
        "similarity": mean(similar),
        "similarity less raw": mean([a - b for a, b in zip(similar, similar_raw, strict=True)]),
    }


def _next_tokens(found: Sequence[Comparison]) -> dict[str, Estimate]:
    """Summarize all tokens of the true rests; tokens of one cursor are resampled together, as they are alike."""
    counts, every = [float(len(each.kl)) for each in found], np.concatenate([each.kl for each in found])
    return {
        "KL": ratio([float(each.kl.sum()) for each in found], counts),
        "KL p95": Estimate(*[float(np.quantile(every, 0.95))] * 3),
        "KL max": Estimate(*[float(every.max())] * 3),
        "same token": ratio([float(each.same.sum()) for each in found], counts),
        "bits lost": ratio([float(each.lost.sum()) for each in found], counts),
    }


def _show(title: str, figures: Mapping[str, Mapping[str, Estimate]]) -> None:
    for engine, name in ENGINES.items():
        rows = [[way, *_suggestion_cells(each, engine)] for way, each in figures.items()]
        show(f"{title}: suggestions of {name}", ("blocks", *SUGGESTION_COLUMNS), rows)
    show(
        f"{title}: next tokens", ("blocks", *TOKEN_COLUMNS), [[w, *_token_cells(each)] for w, each in figures.items()]
    )


def _suggestion_cells(each: Mapping[str, Estimate], engine: str) -> Iterator[str]:
    for figure in ("exact", "similarity"):
        yield f"{100 * each[f'{engine}, {figure}'].value:.1f}"
        yield cell(each[f"{engine}, {figure} less raw"], lambda value: f"{100 * value:+.2f}")
    yield cell(each[f"{engine}, as raw"], lambda value: f"{100 * value:.1f}")


def _token_cells(each: Mapping[str, Estimate]) -> Iterator[str]:
    yield cell(each["KL"], lambda value: f"{1e6 * value:.1f}")
    yield from (f"{1e6 * each[figure].value:.0f}" for figure in ("KL p95", "KL max"))
    yield cell(each["bits lost"], lambda value: f"{1e6 * value:+.0f}")
    yield cell(each["same token"], lambda value: f"{100 * value:.2f}")
    yield f"{each['bytes a token'].value:,.0f}"


def _speed() -> dict[str, float]:
    """Return milliseconds for 59 MB of a larger model's keys and values, medians of a few rounds."""
    shape = TIMED_BLOCKS, len(TIMED.planes), *TIMED.planes[0].shape(BLOCK_TOKENS)
    blocks = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    turns = np.ones((BLOCK_TOKENS, TIMED.planes[0].width // 2), np.complex64)
    codec = KvCodec(TIMED, BLOCK_TOKENS, (turns,))
    rounds = [_round(codec, blocks) for _ in range(ROUNDS)]
    result = {"encode_ms": median(each[0] for each in rounds), "decode_ms": median(each[1] for each in rounds)}
    show(f"{blocks.nbytes / 1e6:.0f} MB through int8, one thread", ("step", "ms"), result.items())
    return result


def _round(codec: KvCodec, blocks: Floats) -> tuple[float, float]:
    started = perf_counter()
    written = [codec.encode(block, 0, Form.INT8) for block in blocks]
    between = perf_counter()
    for block in written:
        codec.decode(block, 0, Form.INT8)
    return (between - started) * 1e3, (perf_counter() - between) * 1e3


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]) if sys.argv[1:] else None)))
