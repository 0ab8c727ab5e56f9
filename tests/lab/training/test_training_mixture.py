"""The fit of the n-grams: a known optimum is found, and what is fitted is what the server mixes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.gate.package_counts import PackageCounts
from efim_lab.workshop.training import mixture, observation
from efim_lab.workshop.training.command import main
from efim_lab.workshop.training.mixture import fit, fit_in_place, fit_to, table
from efim_lab.workshop.training.observation import (
    HALF_LIVES,
    LONGEST_MATCH,
    Floats,
    Likelihood,
    Observations,
    Observer,
    TargetPlace,
)
from model_runtime.counts.segment import LEAST, MOST, CountedDocument
from model_runtime.counts.snapshot import Counts
from model_runtime.engine.ngrams import NGRAMS_FILE, Ngrams, read_ngrams
from tests.models import CODE, make

VOCAB = 8
DOCUMENTS = [CodeDocument(f"project-1.0/{name}.py", CODE.replace("record", name)) for name in ("page", "line", "row")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def observer(folder: Path) -> Observer:
    return Observer(folder)


def drawn(
    shares: Sequence[float], half_life: int, tokens: int = 6000, in_repository: Sequence[float] = ()
) -> Observations:
    """Tokens that are drawn from the mixture with these shares; the counts of other half-lives are others.

    A third of them had a stub that fits the first two tokens alone, which the counts foresee more than the model.
    """
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.ones(VOCAB), tokens)
    counts = rng.dirichlet(np.where(np.arange(VOCAB) < 2, 0.8, 0.1), (len(HALF_LIVES), tokens, LONGEST_MATCH))
    repository = rng.dirichlet(np.ones(VOCAB) / 4, (tokens, LONGEST_MATCH))
    longest, most = (rng.integers(0, len(row) + 1, tokens) for row in (shares, in_repository))
    counted = (np.arange(LONGEST_MATCH) >= rng.integers(0, 4, (tokens, 1))) & (
        np.arange(LONGEST_MATCH) < most[:, None]
    )
    true = model.copy()
    for length in range(max(len(shares), len(in_repository))):
        matches = ((in_repository, counted[:, length], repository), (shares, longest > length, counts[half_life]))
        for row, matched, found in matches:
            taken = np.where(matched, row[length] if length < len(row) else 0.0, 0.0)[:, None]
            true = (1 - taken) * true + taken * found[:, length]
    token = (true.cumsum(axis=1) < rng.random((tokens, 1))).sum(axis=1).clip(max=VOCAB - 1)
    allowed = (np.arange(tokens) % 3 > 0)[:, None] | (np.arange(VOCAB) < 2)
    kept = allowed[np.arange(tokens), token]
    of = {"token": np.eye(VOCAB)[token], "allowed": allowed.astype(float)}
    token, all_ = (likelihood(each[kept], model[kept], counts[:, kept], repository[kept]) for each in of.values())
    return Observations(token, all_, longest[kept], counted[kept], characters=1)


def likelihood(tokens: Floats, model: Floats, counts: Floats, repository: Floats) -> Likelihood:
    summed, remembered = np.einsum("nv,hnlv->hnl", tokens, counts), np.einsum("nv,nlv->nl", tokens, repository)
    return Likelihood(tokens.mean(axis=1), (tokens * model).sum(axis=1), summed, remembered)


def test_a_known_optimum_is_found() -> None:
    shares = (0.1, 0.4, 0.0, 0.7)
    cache = fit_to(drawn(shares, half_life=2))
    assert cache.half_life == HALF_LIVES[2]
    assert cache.shares == pytest.approx(shares, abs=0.06)


def test_the_shares_of_text_and_memory_are_found_together() -> None:
    text, repository = (0.1, 0.4, 0.3), (0.0, 0.0, 0.5, 0.0, 0.3)
    cache = fit_to(drawn(text, half_life=1, tokens=9000, in_repository=repository))
    assert cache.half_life == HALF_LIVES[1]
    assert cache.shares == pytest.approx(text, abs=0.07)
    assert cache.memory_shares == pytest.approx(repository, abs=0.07)
    assert fit_to(drawn(text, half_life=1)).memory_shares == ()


def test_a_length_that_gains_nothing_is_left_out() -> None:
    assert len(fit_to(drawn((0.3, 0.5, 0.0, 0.0), half_life=0)).shares) == 2


def test_what_is_fitted_is_what_the_server_mixes(observer: Observer) -> None:
    """The likelihoods, put together with some shares, are the probabilities of the engine's own mixture."""
    cache = Ngrams((0.3, 0.2, 0.6, 0.1), half_life=1000.0, memory_shares=(0.0, 0.0, 0.2, 0.5, 0.0, 0.4))
    seen = Mixed(cache)
    places = list(observer.places(DOCUMENTS, 12, random.Random(1)))
    observed = observer.observe(places)
    shares = mixture.MixtureShares(np.array(cache.shares), np.array(cache.memory_shares))
    token, allowed = mixture._mixtures(observed, HALF_LIVES.index(1000.0), shares)
    expected = [pair for place in places for pair in seen.asked(observer, place)]
    np.testing.assert_allclose(np.stack([token, allowed], axis=1), expected, rtol=1e-4, atol=1e-7)
    assert observed.longest.max() > 4 and observed.counted[:, 4:].any()
    assert (allowed < 0.999).any()


def test_lengths_with_too_many_matches_in_memory_are_not_counted() -> None:
    ids = np.tile(np.array([5, 6, 7], dtype=np.int32), 2000)
    few, many = (
        Counts().with_changes([], [CountedDocument("a.py", bytes(16), ids[:size])]).without(())
        for size in (300, 6000)
    )
    lengths = {
        view: (np.flatnonzero(observation.MatchCounts(ids[:30], view).counted) + 1).tolist() for view in (few, many)
    }
    assert lengths == {few: list(range(LEAST, MOST + 1)), many: [MOST]}


class Mixed:
    """The long way: the whole mixture for each token of a place."""

    def __init__(self, cache: Ngrams) -> None:
        self.cache = cache

    def asked(self, observer: Observer, place: TargetPlace) -> list[tuple[float, float]]:
        found, stub, history = [], place.prompt.stub, place.prompt.history
        for token, probabilities in zip(place.target.tolist(), observer._distributions(place), strict=True):
            mixed = self.cache.mix(probabilities, history, place.prompt.counts)
            spelled = observer.tokenizer.token_bytes
            fits = [not stub or (s != b"" and (s.startswith(stub) or stub.startswith(s))) for s in spelled]
            found.append((float(mixed[token]), float(mixed[np.array(fits)].sum())))
            stub, history = stub[len(spelled[token]) :], np.append(history, np.int32(token))
        return found


def test_a_place_is_asked_as_the_server_asks(observer: Observer) -> None:
    places = list(observer.places(DOCUMENTS, 40, random.Random(0)))
    documents, memories = {each.text: each for each in DOCUMENTS}, PackageCounts(observer.tokenizer, DOCUMENTS)
    for place in places:
        tokenizer, prompt = observer.tokenizer, place.prompt
        parts = np.split(prompt.history, np.flatnonzero(prompt.history < 0))
        *others, below, above = (tokenizer.decode(part[part >= 0]) for part in parts)
        whole = above + prompt.stub.decode() + place.rest + "\n" + below
        assert {whole, *others} <= documents.keys() and whole not in others
        opened = [documents[other] for other in others]
        assert prompt.counts == memories.beside(documents[whole], opened)
        assert prompt.stub.decode() + place.rest + "\n" == tokenizer.decode(place.target)
        assert place.rest and "\n" not in place.rest
    prompts = [place.prompt for place in places]
    assert any(each.size("head") + each.size("tail") < len(each.history) // 4 for each in prompts)


def test_files_of_the_same_folder_lie_nearest_and_other_projects_are_not_open() -> None:
    paths = ("a-1/x/one.py", "a-1/y/two.py", "a-1/x/three.py", "b-1/x/four.py")
    documents = [CodeDocument(path, path) for path in paths]
    found = [observation._beside(documents[0], documents, random.Random(seed)) for seed in range(40)]
    opened = {tuple(each.path for each in some) for some in found}
    assert opened == {(), ("a-1/x/three.py",), ("a-1/y/two.py", "a-1/x/three.py")}


def test_a_fit_is_written_beside_the_model_and_shown(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    shown = fit_in_place(folder, DOCUMENTS, fitted=12, judged=6)
    cache = read_ngrams(folder)
    assert cache is not None
    assert f"{cache.half_life:g}" in shown
    assert all(name in shown for name in ("model", "n-grams", "mixture", "bits per character", "exact match"))


def test_the_command_reads_a_folder_of_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("page/a.py", "line/b.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(CODE)
    monkeypatch.setattr(mixture, "fit_in_place", lambda folder, found: f"{folder}: {[each.path for each in found]}")
    assert main(["cache", "--model", "some", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "some: ['line/b.py', 'page/a.py']\n"


def test_a_fit_depends_on_model_and_documents_alone(folder: Path) -> None:
    first = fit(folder, DOCUMENTS, fitted=12, judged=6)
    assert fit(folder, DOCUMENTS[::-1], fitted=12, judged=6) == first
    (folder / NGRAMS_FILE).write_text(replace(first[0], half_life=1.0).to_json())
    assert fit(folder, DOCUMENTS, fitted=12, judged=6) == first


def test_of_a_model_that_knows_nothing_the_counts_make_something(folder: Path) -> None:
    _, (model, counts, mixed, remembering) = fit(folder, DOCUMENTS, fitted=40, judged=20)
    assert mixed.bits_per_character < model.bits_per_character
    assert counts.bits_per_character < model.bits_per_character
    assert mixed.exact > model.exact
    assert remembering.bits_per_character < mixed.bits_per_character


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setattr(mixture, "fit", lambda *_: (Ngrams((0.5,), 500.0), []))
    with pytest.raises(WorkError, match="gone"):
        fit_in_place(gone, DOCUMENTS)


@pytest.mark.parametrize("documents", [[], [CodeDocument("a/b.py", " \n\n" + "x" * 201)]])
def test_without_text_there_is_nothing_to_fit_to(folder: Path, documents: list[CodeDocument]) -> None:
    with pytest.raises(WorkError, match="no documents"):
        fit(folder, documents, fitted=12, judged=6)


def test_the_table_has_a_row_for_each_way_to_choose() -> None:
    rows = [mixture.MixtureRow("model", 1.5, 0.1), mixture.MixtureRow("mixture", 1.0, 0.255)]
    shown = table(Ngrams((0.25, 0.5), 2000.0), rows)
    assert "2000 tokens" in shown and "0.25, 0.50" in shown
    model, mixed = ([cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()[2:4])
    assert model == ["model", "1.500", "10.0%"] and mixed == ["mixture", "1.000", "25.5%"]
