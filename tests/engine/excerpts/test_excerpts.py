"""Prompts with excerpts: warm equals cold to the bit, whatever was edited, chosen, evicted or read back from disk."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.models.kv_persistence import KvPersistence, open_for
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER, Cancel, Cancelled
from model_runtime.checkpoint.config import read_config
from model_runtime.engine.engine import GenerateJob, Generation, PrepareJob, SavedFrame
from model_runtime.engine.local import LocalEngine
from model_runtime.errors import ModelError
from model_runtime.ids import Ids
from model_runtime.kv.arena import Arena, DenseArena
from model_runtime.kv.pool import FrameId
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import load
from model_runtime.prompt.prompt import LaidOut, Prompt, PromptPart, build
from model_runtime.sequence_key import texts_apart
from model_runtime.shelves.isolated.library import ExcerptLibrary
from tests.engine.doubles import ENDLESS, decoder_of
from tests.models import CODE, Tiny, make
from tests.waiting import HANG

ROOM = 192
URI, PRIVATE = "file:///project/used.py", "file:///project/secrets.pem"
TEXTS = [CODE[at : at + size] for at, size in ((0, 120), (300, 150), (700, 40), (500, 7))]
OPTIONS = {"capacity": 400, "kv_memory_mib": 3, "threads": 1, "ngrams": False}
Form = Literal["fp32", "fp16", "int8"]


@cache
def folder(mask: str) -> Path:
    return make(Path(tempfile.mkdtemp()), Tiny("efim", context=900, excerpt_rows=ROOM, mask=mask, seed=1), half=True)


def isolated(ids: Ids, origin: str = "") -> PromptPart:
    return PromptPart("similar", ids, sees_excerpts=False, origin=origin)


def excerpts_of(prompt: Prompt) -> list[PromptPart]:
    return [part for part in prompt.parts if part.origin is not None]


class Served:
    """A loaded model with a store in a folder; a new one of the same folder is the same after a restart."""

    def __init__(self, mask: str, form: Form, store: Path | None) -> None:
        self.model = load(read_checkpoint(folder(mask)), progress=lambda *_: None, weights=form, **OPTIONS)  # pyright: ignore[reportArgumentType]
        self.persistence: KvPersistence | None = None
        if store:
            opened = open_for(self.model.kv, Settings(cache_folder=str(store), disk_mib=16), "tiny", 64)
            self.persistence = KvPersistence(opened.store)
        self.engine = LocalEngine(self.model.parts, self.persistence)
        self._frames: dict[int, SavedFrame] = {}

    def prompt(self, cursor: int, head: int, chosen: list[int], origin: str = URI) -> Prompt:
        """The prompt at a place in CODE, with some of TEXTS."""
        model, tokenizer = self.model, self.model.tokenizer
        texts = CODE[:head], CODE[cursor + 60 : cursor + 200], CODE[head:cursor]
        assert model.mask
        excerpts = tuple(isolated(tokenizer.encode(TEXTS[i]), origin) for i in chosen)
        return build(tokenizer, model.template, *texts, context=LaidOut(apart=excerpts, mask=model.mask))

    def generate(self, frame: int, prompt: Prompt) -> Generation:
        private = frozenset(prompt.origins) & {PRIVATE}
        self._frames[frame] = SavedFrame(FrameId(URI, frame), prompt, private)
        job = GenerateJob(FrameId(URI, frame), prompt, ENDLESS, 6, better_line=True)
        return self.engine.generate(job, NEVER)

    def held(self, frame: int, prompt: Prompt) -> np.ndarray:
        """Keys and values of a prompt and its excerpts."""
        arena = self.model.parts.pool.get(FrameId(URI, frame))
        assert arena and arena.apart == prompt.apart and arena.common(prompt.key) == len(prompt.ids)
        rows = slice(ROOM - prompt.apart.tokens, ROOM + len(prompt.ids))
        return np.stack([arena.k[:, :, rows], arena.v[:, :, rows]])

    def save(self) -> None:
        assert self.engine.save(URI, list(self._frames.values()), NEVER)
        assert self.engine.flush(HANG)

    def close(self) -> None:
        self.engine.close(HANG)


@cache
def cold(mask: str, form: Form) -> Served:
    return Served(mask, form, None)


def answered_cold(mask: str, form: Form, prompt: Prompt) -> tuple[Generation, np.ndarray]:
    """What a model without a past answers, and what it holds then."""
    served = cold(mask, form)
    for arena in served.model.parts.pool._all:
        arena.truncate(0)
        arena.answers = None
    library = served.model.parts.library
    assert isinstance(library, ExcerptLibrary)
    library._kept.clear()
    library._scratch.truncate(0)
    return served.generate(0, prompt), served.held(0, prompt)


def assert_costs(made: Generation, prompt: Prompt) -> None:
    assert made.reused + made.stats.recomputed == prompt.tokens
    assert 0 <= made.fetched <= made.reused and made.approximate == 0


places = st.tuples(st.sampled_from([330, 400, 401, 420, 600]), st.sampled_from([200, 300]))
choices = st.lists(st.integers(0, len(TEXTS) - 1), max_size=3, unique=True)
asked = st.tuples(st.integers(0, 4), places, choices)


@pytest.mark.parametrize("mask", ["typed", "head"])
@pytest.mark.parametrize("form", ["fp16", "int8", "fp32"])
@settings(max_examples=5)
@given(steps=st.lists(asked | st.sampled_from(["restart", "evict", "prepare"]), min_size=4, max_size=10))
def test_warm_equals_cold(mask: str, form: Form, steps: list[tuple[int, tuple[int, int], list[int]] | str]) -> None:
    with tempfile.TemporaryDirectory() as store:
        served = Served(mask, form, Path(store))
        for step in steps:
            if step == "restart":
                served.save()
                served.close()
                served = Served(mask, form, Path(store))
            elif step == "evict":
                assert isinstance(library := served.model.parts.library, ExcerptLibrary)
                library._kept.clear()
            elif step == "prepare":
                ahead = served.prompt(400, 300, [1, 2])
                assert served.engine.prepare(PrepareJob(FrameId(URI, 9), ahead), NEVER)
            elif not isinstance(step, str):
                frame, (cursor, head), chosen = step
                prompt = served.prompt(cursor, head, chosen)
                told = served.engine.reusable(FrameId(URI, frame), prompt)
                made = served.generate(frame, prompt)
                expected, held = answered_cold(mask, form, prompt)
                assert_costs(made, prompt)
                assert (told.reused, told.fetched) == (made.reused, made.fetched)
                assert made.text == expected.text
                if form != "fp32":  # torch sums by a pass' width
                    assert np.array_equal(served.held(frame, prompt), held)
                    assert [each[:2] for each in made.choices] == [each[:2] for each in expected.choices]
        served.close()


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served("typed", "fp16", tmp_path)


def typed_tokens(served: Served, prompt: Prompt) -> int:
    return len(served.model.template.middle) + prompt.size("typed")


def test_a_change_of_excerpts_recomputes_typed_only(served: Served) -> None:
    first, second = served.prompt(400, 300, [0, 1]), served.prompt(400, 300, [1, 2])
    made = served.generate(0, first)
    assert (made.reused, made.stats.recomputed) == (0, first.tokens)
    again = served.generate(0, second)
    new = len(excerpts_of(second)[1].ids)
    assert again.stats.recomputed == typed_tokens(served, second) + new
    back = served.generate(0, first)
    assert back.stats.recomputed == typed_tokens(served, first)


def test_excerpts_and_what_saw_them_come_back_after_a_restart(served: Served, tmp_path: Path) -> None:
    prompt = served.prompt(400, 300, [0, 2])
    served.generate(0, prompt)
    served.save()
    served.close()
    later = Served("typed", "fp16", tmp_path)
    first, second = excerpts_of(prompt)
    other = replace(prompt, parts=tuple(part for part in prompt.parts if part is not second))
    assert later.generate(0, other).fetched == len(first.ids) + prompt.before_excerpts // 16 * 16
    again = later.generate(1, prompt)
    assert again.stats.recomputed <= 16 and again.fetched >= len(second.ids) + typed_tokens(later, prompt) - 32


def test_excerpts_of_private_files_reach_no_disk(served: Served, tmp_path: Path) -> None:
    prompt = served.prompt(400, 300, [0, 2], PRIVATE)
    served.generate(0, prompt)
    served.save()
    assert served.persistence and all(served.persistence.filled_excerpt(each.ids) for each in excerpts_of(prompt))
    served.close()
    later = Served("typed", "fp16", tmp_path)
    assert later.persistence and not any(later.persistence.filled_excerpt(each.ids) for each in excerpts_of(prompt))
    assert later.generate(0, prompt).fetched == prompt.before_excerpts // 16 * 16


def test_excerpts_that_were_interrupted_are_gone_on_with(served: Served) -> None:
    prompt, turns = served.prompt(400, 300, [0, 1]), iter([False, True])
    with pytest.raises(Cancelled):
        served.engine.generate(GenerateJob(FrameId(URI), prompt, ENDLESS, 3), Cancel(lambda: next(turns, True)))
    assert served.generate(0, prompt).stats.recomputed < prompt.tokens


def test_excerpts_whose_preparing_was_interrupted_are_gone_on_with(served: Served) -> None:
    prompt, turns, engine = served.prompt(400, 300, [0, 1]), iter([False, True]), served.engine
    assert not engine.prepare(PrepareJob(FrameId(URI), prompt), Cancel(lambda: next(turns, True)))
    ahead = engine.statistics().prefetched
    assert 0 < ahead < prompt.apart.tokens
    assert engine.prepare(PrepareJob(FrameId(URI), prompt), NEVER)
    assert engine.statistics().prefetched == prompt.tokens
    assert served.generate(0, prompt).stats.recomputed == 0


def test_excerpts_least_recently_asked_for_leave_a_library_that_is_full() -> None:
    decoder, read = decoder_of(folder("typed")), read_config(folder("typed"))
    assert decoder.rotations is not None
    library = ExcerptLibrary(DenseArena(replace(read, excerpt_rows=0), ROOM), decoder.rotations, most_tokens=100)
    texts = [np.arange(at, at + 40, dtype=np.int32) for at in (0, 50, 100)]

    def compute(ids: Ids, arena: Arena) -> None:
        decoder.forward(ids, arena)

    def held_after(*asked: int) -> list[bool]:
        excerpts = texts_apart([texts[number] for number in asked], 0)
        assert library.ready(excerpts, None, compute, 64, NEVER).complete
        return [library.get(text) is not None for text in texts_apart(texts, 0).texts]

    assert held_after(0) == [True, False, False]
    assert held_after(1) == [True, True, False]
    assert held_after(0) == [True, True, False]
    assert held_after(2) == [True, False, True], "two fill it, and the second was not asked for since"
    assert held_after(0, 1, 2) == [True, True, True], "all that are asked for at once stay"


def test_a_model_without_a_room_takes_no_excerpts(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(make(tmp_path / "plain", half=True))
    model = load(checkpoint, progress=lambda *_: None, weights="fp16", **OPTIONS)  # pyright: ignore
    prompt = build(model.tokenizer, model.template, "", "", "x = 1\n")
    with pytest.raises(ValueError, match="not trained with excerpts apart: put their text"):
        with_excerpt = replace(prompt, parts=(isolated(prompt.ids), *prompt.parts))
        LocalEngine(model.parts).generate(GenerateJob(FrameId(""), with_excerpt, ENDLESS, 1), NEVER)


def test_excerpts_that_exceed_the_room_are_refused_and_harm_nothing(served: Served) -> None:
    prompt = served.prompt(400, 300, [0, 1])
    served.generate(0, prompt)
    with pytest.raises(ValueError, match=f"exceed the {ROOM} rows kept for them: choose fewer"):
        longer = isolated(np.zeros(ROOM + 1, dtype=np.int32))
        served.generate(0, replace(prompt, parts=(longer, *prompt.parts)))
    assert served.generate(0, prompt).stats.recomputed == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"mask": "all", "tokens": 64}, "mask 'all': use a model that names typed or head"),
        ({"mask": "typed", "tokens": 65}, "65 tokens, not a multiple of 64 below the 512 positions"),
        ({"mask": "typed", "tokens": 512}, "512 tokens, not a multiple of 64 below"),
        ({"tokens": 64}, "mask is None"),
        ([64], "not an object"),
    ],
)
def test_what_a_model_says_of_its_mask_is_checked(value: object, told: str) -> None:
    from model_runtime.checkpoint.config import parse_config
    from tests.models import config

    with pytest.raises(ModelError, match=told):
        parse_config({**config(Tiny()), "isolated_excerpts": value})
