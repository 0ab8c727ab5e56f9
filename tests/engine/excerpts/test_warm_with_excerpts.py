"""With text of other files in the prompt, warm caches answer what empty ones do, whatever is offered or withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.planning.window import Budget
from efim_ls.request import Request, Upcoming
from efim_ls.session.prefetch import accepted
from model_runtime.cancel import NEVER, Cancel
from model_runtime.shelves.excerpts.excerpts import NO_EXCERPTS, Excerpt, ExcerptBudget, ExcerptPlace, Excerpts
from tests.compiled import require_compiled
from tests.engine.completion.test_warm_equals_cold import (
    DOCUMENTS,
    ONE_KEY_HEAD,
    Bench,
    Session,
    assert_same_answer,
    assert_same_numbers,
    patience,
    sizes,
    step,
    steps,
    stopped_after,
)
from tests.engine.doubles import CACHE, Log
from tests.models import make
from tests.waiting import HANG


def excerpt(place: ExcerptPlace, name: str) -> Excerpt:
    return Excerpt(place, f"{name}.py", f"/project/{name}.py", (0,), f"def {name}(x): ...\n", "named here")


A, B, C, D = (excerpt("signatures", name) for name in ("alpha", "beta", "gamma", "delta"))
OFFERS = (
    NO_EXCERPTS,
    Excerpts((A,), (B._replace(place="imports"),), (), "project", "a.py"),
    Excerpts((A,), (B._replace(place="imports"),), (C._replace(place="similar"),), "project", "a.py"),
    Excerpts((A,), (C._replace(place="imports"),), (D._replace(place="similar"),), "project", "a.py"),
    Excerpts((A, D), (), (B._replace(place="similar"),), "project", "a.py"),
)
FILES = tuple(each.file for each in (A, B, C, D))


class ExcerptBench(Bench):
    """A model whose prompts have room for a few excerpts."""

    budget = Budget(head=96, tail=32, context=ExcerptBudget(40, 30, 20))


class Surrounded(Session):
    """A user whose other files change."""

    offered = 0
    excluded_files = frozenset[str]()

    def offer(self, number: int) -> Iterator[None]:
        """The index has chosen something else."""
        self.offered = number
        yield

    def exclude(self, number: int) -> Iterator[None]:
        """The rules come to exclude a file, or to allow it again."""
        self.excluded_files ^= {FILES[number]}
        yield


changes = st.one_of(
    steps,
    steps,
    step("offer", st.integers(0, len(OFFERS) - 1)),
    step("exclude", st.integers(0, len(FILES) - 1)),
    step("prepare", st.floats(0, 1)),
)
histories = st.lists(st.tuples(changes, patience, st.none() | st.integers(0, 8)), min_size=1, max_size=12)


@pytest.fixture(scope="module", params=["llama, fp32", "one key head, int8 compiled"])
def bench(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    if request.param == "llama, fp32":
        return ExcerptBench(folder, "fp32", cache=None)
    require_compiled()
    return ExcerptBench(make(tmp_path_factory.mktemp("one_key_head"), ONE_KEY_HEAD), "int8", CACHE)


@settings(max_examples=15)
@given(sizes=sizes, history=histories, arenas=st.integers(1, 6), offered=st.integers(0, len(OFFERS) - 1))
def test_a_warm_answer_is_the_cold_answer_whatever_other_files_say(
    bench: Bench,
    tmp_path_factory: pytest.TempPathFactory,
    sizes: tuple[int, int],
    history: list[tuple[tuple[object, ...], int, int | None]],
    arenas: int,
    offered: int,
) -> None:
    session, store = Surrounded(sizes), tmp_path_factory.mktemp("store")
    session.offered = offered
    warm, engine = bench.completer(arenas, store)
    for (name, *arguments), asked, ahead in history:
        for _ in getattr(session, str(name))(*arguments):
            place = session.place
            request = Request(
                DOCUMENTS[session.open], place.text, place.cursor, session.explicit,
                counts=bench.memories[session.indexed], context=OFFERS[session.offered],
                excluded_files=session.excluded_files,
            )  # fmt: skip
            if session.restarted:
                session.restarted = False
                warm.close(HANG)
                warm, engine = bench.completer(arenas, store)
            if session.background:
                session.background = False
                warm.prepare(Upcoming(request, "rested"), Cancel(stopped_after(asked)))
                continue
            in_effect = warm._opened(request.uri)[1].ask(request).request
            cold, cold_log = bench.cold(warm, in_effect, arenas)
            engine.log = Log()
            answer = warm.complete(request, Cancel(stopped_after(asked)))
            if answer.reason == "superseded":
                continue
            session.suggested[session.open] = answer.text
            if engine.log.made is None:
                assert (answer.text, answer.hidden, answer.reason) == (cold.text, cold.hidden, cold.reason)
                continue
            shown = bench.text_of(engine.log)
            assert not [file for file in session.excluded_files if file.removeprefix("/project/") in shown]
            assert_same_numbers(bench, engine.log)
            assert_same_answer(bench, answer, engine.log, cold, cold_log)
            if ahead is not None:
                warm.prepare(Upcoming(accepted(request, answer.text)), Cancel(stopped_after(ahead)))
                warm.save(request.uri, Cancel(stopped_after(asked)))
    warm.close(HANG)


def test_a_file_excluded_at_run_time_is_out_of_the_next_answer_and_its_frames(bench: Bench) -> None:
    completer, engine = bench.completer(2)
    session = Surrounded((24, 9))
    request = Request(DOCUMENTS[0], session.place.text, session.place.cursor, explicit=True, context=OFFERS[2])
    completer.prepare(Upcoming(request, "rested"), NEVER)
    completer.complete(request, NEVER)
    assert all(name in bench.text_of(engine.log) for name in ("alpha", "beta", "gamma"))
    assert completer._opened(request.uri)[1].requested_frames()
    completer.complete(replace(request, excluded_files=frozenset({B.file})), NEVER)
    assert "beta" not in bench.text_of(engine.log) and "alpha" in bench.text_of(engine.log)
    completer.forget_suggestions()
    assert not completer._opened(request.uri)[1].requested_frames(), "what showed them is not saved"
    completer.complete(replace(request, context=NO_EXCERPTS), NEVER)
    assert not [name for name in ("alpha", "beta", "gamma") if name in bench.text_of(engine.log)]


def test_excerpts_are_explained_with_their_places_and_costs(bench: Bench) -> None:
    completer, _ = bench.completer(2)
    session = Surrounded((24, 9))
    request = Request(DOCUMENTS[0], session.place.text, session.place.cursor, explicit=True, context=OFFERS[2])
    completer.prepare(Upcoming(request, "rested"), Cancel(lambda: True))
    told = completer.explain(request)
    shown = told["other_files"]
    assert isinstance(shown, list)
    assert [(each["place"], each["path"], each["lines"], each["cost"]) for each in shown] == [
        ("signatures", "alpha.py", (1,), "recomputed"),
        ("imports", "beta.py", (1,), "recomputed"),
        ("similar", "gamma.py", (1,), "recomputed"),
    ]
    completer.prepare(Upcoming(request, "rested"), NEVER)
    costs = completer.complete(request, NEVER).costs
    assert costs.others == sum(each["tokens"] for each in shown)
    again = completer.explain(request)["other_files"]
    assert isinstance(again, list)
    assert {each["cost"] for each in again} == {"kept"}
    other = replace(request, uri=DOCUMENTS[1], text="x = 1\n", cursor=6, context=OFFERS[3])
    costs = completer.complete(other, NEVER).costs
    assert costs.reused >= shown[0]["tokens"] > 0, "the preamble is shared by all files"
