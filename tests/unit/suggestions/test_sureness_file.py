"""The weights in a model's folder judge its answers; where there are none, the embedded model's do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.completion.suggestions.sureness import SURENESS_FILE, embedded_sureness, read_sureness
from efim_ls.settings import Settings
from model_runtime.errors import ModelError
from tests.models import make

Damage = Callable[[dict[str, Any]], object]
DAMAGES: dict[str, Damage] = {
    "a weight is missing": lambda raw: raw["guess"].pop("agrees"),
    "a weight is a text": lambda raw: raw["word"].update(share="1"),
    "a weight is true": lambda raw: raw["word"].update(share=True),
    "a weight is no number": lambda raw: raw["word"].update(share=float("nan")),
    "no weights of words": lambda raw: raw.pop("word"),
    "a list": lambda raw: raw.update(guess=[1.0]),
}


def damaged(folder: Path, damage: str) -> Path:
    raw = json.loads(embedded_sureness().to_json())
    DAMAGES[damage](raw)
    (folder / SURENESS_FILE).write_text(json.dumps(raw), encoding="utf-8")
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_are_refused_by_name(damage: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"sureness\.json holds no fitted sureness: fetch the model again"):
        read_sureness(damaged(tmp_path, damage))


def test_weights_that_are_no_json_are_refused(tmp_path: Path) -> None:
    (tmp_path / SURENESS_FILE).write_bytes(b"\xff{")
    with pytest.raises(ModelError, match=r"sureness\.json cannot be read"):
        read_sureness(tmp_path)


def test_a_model_without_weights_is_judged_as_the_embedded_one(tmp_path: Path) -> None:
    assert read_sureness(tmp_path) is embedded_sureness()


def test_the_weights_of_a_model_judge_its_answers(tmp_path: Path) -> None:
    weights = embedded_sureness()._replace(guess=(2.0, *embedded_sureness().guess[1:]))
    (make(tmp_path) / SURENESS_FILE).write_text(weights.to_json(), encoding="utf-8")
    settings = Settings(model=str(tmp_path), persist=False)
    completer = Completer.load(settings, lambda *_: None)
    try:
        assert completer.models.first.model_answerer._sureness == weights
    finally:
        completer.close(0)
    damaged(tmp_path, "a list")
    with pytest.raises(ModelError, match="sureness"):
        Completer.load(settings, lambda *_: None)
