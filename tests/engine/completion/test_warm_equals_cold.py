"""Whatever was edited, undone, accepted, cancelled or completed before: warm caches answer what empty ones do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from efim_ls.completion.completer import Completer
from efim_ls.completion.models.kv_persistence import KvPersistence
from efim_ls.completion.planning.window import Budget
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.session.prefetch import accepted
from model_runtime.cancel import NEVER, Cancel
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.weights import read_weights
from model_runtime.counts.snapshot import EMPTY
from model_runtime.decoder.quantization import NamedFormat
from model_runtime.engine.ngrams import Ngrams
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import load
from model_runtime.loading.weight_format import CpuMethod
from model_runtime.logits import Logits
from model_runtime.prompt.families import FAMILIES
from tests.compiled import require_compiled
from tests.engine.doubles import CACHE, Log, Surer, Watched, counts_of, fetched
from tests.engine.persistence import adopt_frames, completer_over, in_memory, on_disk
from tests.models import CODE, Tiny, make
from tests.sized import Sized
from tests.waiting import HANG

MEMORIES = 4
BUDGET = Budget(head=96, tail=32)  # so small that windows slide and frames change all the time
CAPACITY = 3 + BUDGET.head + BUDGET.tail + 2 * BUDGET.typed + 200
TIE = 1e-4  # two tokens whose scores are this close are equally good, and lines with such probabilities
LINE_TOKENS = 6  # of a line that may be likelier than the greedy one
PARTS = {"all": r"(?s).*", "word": r"\s*\w*|.", "line": r"[^\n]*\n?"}
DOCUMENTS = ("file:///a.py", "file:///b.py")
LINES = CODE.splitlines(keepends=True)
FOREIGN = ("é = 'naïve'", "x = '日本語'", "😀😀", "# Größe\r\n", "\t\tif ñ:\r\n", "\r", "a\r\n\r\nb", "ﬁ²Ω")
TOLERANCE: dict[NamedFormat, float] = {"fp32": 1e-4, "fp16": 1e-3, "int8": 0.0, "int4": 0.0}  # compiled is exact
# For five, as in the network that is trained.
ONE_KEY_HEAD = Tiny("efim", hidden=60, heads=5, kv_heads=1, head_dim=64, intermediate=100)


@dataclass(frozen=True)
class Place:
    """A document as its user sees it."""

    text: str
    cursor: int

    def insert(self, added: str) -> Place:
        text = self.text[: self.cursor] + added + self.text[self.cursor :]
        return Place(text, self.cursor + len(added))

    def delete(self, before: int, after: int) -> Place:
        start = max(0, self.cursor - before)
        return Place(self.text[:start] + self.text[self.cursor + after :], start)

    def jump(self, share: float) -> Place:
        return Place(self.text, round(share * len(self.text)))


class Session:
    """A user of two documents: every step yields the documents to complete, in order."""

    def __init__(self, sizes: tuple[int, int]) -> None:
        self.open = 0
        self.places = [Place("".join(LINES[:size]), 0).jump(0.7) for size in sizes]
        self.past: list[list[Place]] = [[], []]
        self.suggested = ["", ""]
        self.background = False
        self.explicit = False
        self.beside = True
        self.indexed = 0
        self.restarted = False

    @property
    def place(self) -> Place:
        return self.places[self.open]

    def go(self, place: Place) -> None:
        self.past[self.open].append(self.place)
        self.places[self.open] = place

    def type(self, text: str) -> Iterator[None]:
        for character in text:
            self.go(self.place.insert(character))
            yield

    def paste(self, text: str) -> Iterator[None]:
        self.go(self.place.insert(text))
        yield

    def newline(self, ending: str, indent: int) -> Iterator[None]:
        yield from self.paste(ending + " " * indent)

    def delete(self, before: int, after: int) -> Iterator[None]:
        self.go(self.place.delete(before, after))
        yield

    def retype(self, text: str) -> Iterator[None]:
        """Type something else over what stands before the cursor, as long as that."""
        self.go(self.place.delete(len(text), 0).insert(text))
        yield

    def delete_elsewhere(self, share: float, size: int) -> Iterator[None]:
        cursor, there = self.place.cursor, self.place.jump(share)
        text = there.delete(size, 0).text
        self.go(Place(text, min(cursor, len(text))))
        yield

    def jump(self, share: float) -> Iterator[None]:
        self.go(self.place.jump(share))
        yield

    def undo(self, steps: int) -> Iterator[None]:
        for _ in range(min(steps, len(self.past[self.open]))):
            self.places[self.open] = self.past[self.open].pop()
        yield

    def accept(self, part: str) -> Iterator[None]:
        """All of the suggestion, its first word or its first line."""
        yield from self.paste(re.match(PARTS[part], self.suggested[self.open])[0])  # type: ignore[index]

    def type_through(self, count: int) -> Iterator[None]:
        """The suggestion's next characters, one by one."""
        yield from self.type(self.suggested[self.open][:count])

    def diverge(self, count: int, other: str) -> Iterator[None]:
        """Type into the suggestion, then something else, and take that back."""
        yield from self.type_through(count)
        yield from self.type(other)
        yield from self.delete(len(other), 0)

    def prepare(self, share: float) -> Iterator[None]:
        """Rest the cursor somewhere, so that work is done ahead of need."""
        self.go(self.place.jump(share))
        self.background = True
        yield

    def switch(self) -> Iterator[None]:
        self.open = 1 - self.open
        yield

    def save_as(self) -> Iterator[None]:
        """The other document becomes this one, so that their prompts begin alike."""
        self.past[1 - self.open].append(self.places[1 - self.open])
        self.places[1 - self.open] = self.place
        yield from self.switch()

    def open_or_close(self) -> Iterator[None]:
        """The other document."""
        self.beside = not self.beside
        yield

    def index(self, counts: int) -> Iterator[None]:
        """Read other files of the repository."""
        self.indexed = counts
        yield

    def restart(self) -> Iterator[None]:
        """The server: what was kept is all that is left."""
        self.restarted = True
        yield

    def again(self) -> Iterator[None]:
        yield

    def invoke(self) -> Iterator[None]:
        """Ask by a key, which no earlier suggestion answers."""
        self.explicit = True
        yield
        self.explicit = False


Step = Callable[[Session], Iterator[None]]


def step(name: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.tuples(st.just(name), *arguments)


shares = st.floats(0, 1)
words = st.sampled_from(["sel", "return x", "  foo(", ")", ":", "é", "日本", "v1", "'", "= 0", "    "])
pastes = st.one_of(
    st.builds(lambda at, size: "".join(LINES[at : at + size]), st.integers(0, len(LINES)), st.integers(1, 20)),
    st.sampled_from(FOREIGN),
    st.sampled_from([CODE.replace("\n", "\r\n")[:300], "x = [" + "1, " * 150 + "]", "\n" * 40]),
)
steps = st.one_of(
    step("type", words),
    step("paste", pastes),
    step("newline", st.sampled_from(["\n", "\r\n"]), st.sampled_from([0, 4, 8])),
    step("delete", st.sampled_from([1, 1, 2, 9, 60]), st.sampled_from([0, 0, 0, 5, 200])),
    step("retype", st.sampled_from(["+ 1 ", "- 2 ", "= x\n", ".y ", "[0] "])),
    step("delete_elsewhere", shares, st.integers(1, 400)),
    step("jump", shares),
    step("undo", st.integers(1, 6)),
    step("accept", st.sampled_from(list(PARTS))),
    step("type_through", st.integers(1, 12)),
    step("diverge", st.integers(0, 6), st.sampled_from(["x", " ", "()", "= "])),
    step("prepare", shares),
    step("switch"),
    step("save_as"),
    step("open_or_close"),
    step("index", st.integers(0, MEMORIES - 1)),
    step("restart"),
    step("again"),
    step("invoke"),
    step("invoke"),
)
patience = st.one_of(st.just(10_000), st.just(10_000), st.integers(0, 8))
sessions = st.lists(st.tuples(steps, patience, st.none() | st.integers(0, 8)), min_size=1, max_size=12)
sizes = st.tuples(st.sampled_from([0, 12, 24, 66]), st.sampled_from([9, 24, 66]))


class Bench:
    """A tiny model, and completers over it: warm ones that go on, cold ones for one request."""

    budget = BUDGET

    def __init__(self, folder: Path, form: NamedFormat, cache: Ngrams | None) -> None:
        self.cache, self.tolerance = cache, TOLERANCE[form]
        self.tie = TIE if self.tolerance else 0.0
        config = read_config(folder)
        way = CpuMethod(form, compiled=form in ("int8", "int4"))
        decoder = way.decoder(config, read_weights(folder, config), threads=1)
        self.settings = Sized(max_new_tokens=10, weights=form)
        self._model = load(
            read_checkpoint(folder),
            weights=form,
            threads=1,
            capacity=CAPACITY,
            kv_memory_mib=64,
            ngrams=False,
            progress=lambda *_: None,
        )
        self.decoder = Surer(decoder, self._model.tokenizer)
        texts = CODE, CODE.replace("value", "amount")
        first, both = (counts_of(self._model.tokenizer, *texts[:size]) for size in (1, 2))
        self.memories = None, EMPTY.without(()), first.without(()), both.without(())
        assert len(self.memories) == MEMORIES

    def completer(self, arenas: int, store: Path | None = None) -> tuple[Completer, Watched]:
        tokenizer = self._model.tokenizer
        opened = on_disk(self._model, store) if store else in_memory(self._model)
        backing = KvPersistence(opened.store)
        engine = Watched(self.decoder, tokenizer, CAPACITY, arenas, self.cache, backing, LINE_TOKENS)
        model = replace(self._model, ngrams=self.cache)
        return completer_over(engine, model, self.settings, self.budget, opened), engine

    def cold(self, warm: Completer, request: Request, arenas: int) -> tuple[Answer, Log]:
        """Answer with nothing computed; the plans before are the warm one's, since they decide the prompt."""
        completer, engine = self.completer(arenas)
        adopt_frames(completer, warm, request.uri)
        return completer.complete(request, NEVER), engine.log

    def text_of(self, log: Log) -> str:
        assert log.prompt is not None
        return self._model.tokenizer.decode(log.prompt.ids) + log.prompt.stub.decode()


@pytest.fixture(
    scope="module", params=["llama, fp32", "qwen2, fp16 and n-grams", "one key head, int8 compiled", "int4"]
)
def bench(
    request: pytest.FixtureRequest, folder: Path, qwen_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bench:
    if request.param == "llama, fp32":
        return Bench(folder, "fp32", cache=None)
    if request.param == "qwen2, fp16 and n-grams":
        return Bench(qwen_folder, "fp16", CACHE)
    one_key_head = make(tmp_path_factory.mktemp("one_key_head"), ONE_KEY_HEAD)
    require_compiled()
    return Bench(one_key_head, "int4" if request.param == "int4" else "int8", CACHE)


@settings(max_examples=40)
@given(sizes=sizes, sessions=sessions, arenas=st.integers(1, 6), least=st.sampled_from([0.0, 1e-6, 0.01]))
def test_a_warm_answer_is_the_cold_answer(
    bench: Bench,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: tuple[int, int],
    sessions: list[tuple[tuple[object, ...], int, int | None]],
    arenas: int,
    least: float,
) -> None:
    session, store = Session(sizes), tmp_path_factory.mktemp("store")
    warm, engine = bench.completer(arenas, store)
    for (name, *arguments), patience, ahead in sessions:
        for _ in getattr(session, str(name))(*arguments):
            other = session.places[1 - session.open].text
            place, others = session.place, (other,) * session.beside
            request = Request(
                DOCUMENTS[session.open], place.text, place.cursor, session.explicit, others,
                least=0.0 if session.explicit else least, counts=bench.memories[session.indexed],
            )  # fmt: skip
            if session.restarted:
                session.restarted = False
                warm.close(HANG)
                warm, engine = bench.completer(arenas, store)
            if session.background:
                session.background = False
                preparation = partial(warm.prepare, Upcoming(request))
                if not preparation(Cancel(stopped_after(patience))) and patience % 2:
                    preparation(Cancel(stopped_after(patience)))
                continue
            in_effect = warm._opened(request.uri)[1].ask(request).request
            cold, cold_log = bench.cold(warm, in_effect, arenas)
            engine.log = Log()
            answer = warm.complete(request, Cancel(stopped_after(patience)))
            note(f"{name} {arguments}: {answer}")
            if answer.reason == "superseded":
                continue
            session.suggested[session.open] = answer.text
            if engine.log.made is None:
                assert (answer.text, answer.hidden, answer.reason) == (cold.text, cold.hidden, cold.reason)
                continue
            assert_same_history(engine.log, cold_log)
            assert_prompt_is_the_document(bench.text_of(engine.log), request)
            assert_same_numbers(bench, engine.log)
            assert_same_answer(bench, answer, engine.log, cold, cold_log)
            if ahead is not None:
                warm.prepare(Upcoming(accepted(request, answer.text)), Cancel(stopped_after(ahead)))
                warm.save(request.uri, Cancel(stopped_after(patience)))
    warm.close(HANG)


def stopped_after(questions: int) -> Callable[[], bool]:
    """True from the question of this number on."""
    asked = iter(range(questions))
    return lambda: next(asked, None) is None


def assert_same_answer(bench: Bench, answer: Answer, log: Log, cold: Answer, cold_log: Log) -> None:
    assert log.made is not None
    assert cold_log.made is not None
    if log.tokens != cold_log.tokens:
        likelier, other = sorted((log.made.confidence, cold_log.made.confidence), reverse=True)
        gap = min(*cold_log.gaps, 1 - other / likelier)
        assert 0 <= gap < bench.tie, "only a genuine tie may fall another way"
        return
    assert log.made.text == cold_log.made.text
    assert (answer.text, answer.hidden, answer.reason) == (cold.text, cold.hidden, cold.reason)
    assert answer.costs.new_tokens == cold.costs.new_tokens == len(log.tokens)
    assert log.made.confidence == pytest.approx(cold_log.made.confidence, rel=10 * bench.tolerance, abs=1e-12)
    assert len(log.tokens) <= len(cold_log.gaps) + 1, "a fork's own token needs no pass"
    assert cold.costs.reused == cold.costs.known == 0
    assert answer.costs.reused + answer.costs.recomputed == cold.costs.recomputed


def assert_same_history(log: Log, cold_log: Log) -> None:
    """What the n-grams read is what stands in the open documents now, and the repository that is in effect."""
    assert log.prompt is not None and cold_log.prompt is not None
    assert log.prompt.history.tolist() == cold_log.prompt.history.tolist()
    assert log.prompt.counts == cold_log.prompt.counts


def assert_same_numbers(bench: Bench, log: Log) -> None:
    """Keys, values and kept logits are those of one pass over an empty arena."""
    assert log.prompt is not None
    assert log.arena is not None
    ids, arena = log.prompt.ids, log.arena
    assert arena.ids[: len(ids)].tolist() == ids[: arena.length].tolist()
    scratch = DenseArena(bench.decoder.config, CAPACITY)
    if arena.logits_at > 0:
        logits = bench.decoder.forward(arena.ids[: arena.logits_at].copy(), scratch)[0]
        assert distance(logits, arena.logits) <= bench.tolerance
    if arena.length > scratch.length:
        bench.decoder.forward(arena.ids[scratch.length :].copy(), scratch)
    assert distance(scratch.k[:, :, : arena.length], arena.k[:, :, : arena.length]) <= bench.tolerance
    assert distance(scratch.v[:, :, : arena.length], arena.v[:, :, : arena.length]) <= bench.tolerance


def distance(a: Logits, b: Logits | None) -> float:
    assert b is not None
    return float(np.abs(fetched(a) - fetched(b)).max())


def assert_prompt_is_the_document(prompt: str, request: Request) -> None:
    """Head and typed are what stands before the cursor; the tail, what follows its line."""
    markers = next(family.markers for family in FAMILIES if family.name == "qwen")
    nothing, head, tail, typed = re.split("|".join(map(re.escape, markers)), prompt)
    before, after = request.text[: request.cursor], request.text[request.cursor :]
    below = re.fullmatch(r"[^\r\n]*(?:\r\n|\r|\n|)(.*)", after, re.DOTALL)[1]  # type: ignore[index]
    assert nothing == ""
    assert before.endswith(head + typed)
    assert below.startswith(tail)
