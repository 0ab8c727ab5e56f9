"""A model that only transformers knows, through the server's own loading; and what is not imported for others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from model_runtime.cancel import NEVER
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_architecture
from tests.engine.hf import FAMILIES, make
from tests.models import CODE, tokenizer_json
from tests.models import make as make_own
from tests.sized import Sized

SETTINGS = Sized(max_new_tokens=12, head_tokens=120, tail_tokens=40, memory_mib=112, suggestions=0.0)
HEAVY = {"transformers", "huggingface_hub", "peft", "xformers"}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make(tmp_path_factory.mktemp("foreign"), "stablelm", **FAMILIES["stablelm"])
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    return folder


def completer(folder: Path, **settings: object) -> Completer:
    wanted = replace(SETTINGS, model=str(folder), **settings)  # pyright: ignore[reportArgumentType]
    return Completer.load(wanted, lambda stage, percent: None)


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
def test_it_completes_warm_as_cold_and_says_who_computes(foreign: Path, weights: str) -> None:
    warm = completer(foreign, weights=weights)
    told = warm.describe()
    assert (told["decoder"], told["weights"], told["device"]) == ("transformers", weights, "cpu")
    assert "stablelm" in str(told["decoder_reason"]) and int(str(told["parameters"])) > 0
    answers = [warm.complete(Request("a", CODE[:at], at, explicit=True), NEVER) for at in range(300, 320)]
    assert any(answer.costs.reused > 100 for answer in answers)
    cold = completer(foreign, weights=weights)
    again = cold.complete(Request("a", CODE[:319], 319, explicit=True), NEVER)
    assert again.text == answers[-1].text
    assert again.costs.reused == 0


def test_it_is_not_for_a_gpu(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_runtime.decoder.gpu.device.cuda_missing", lambda: None)
    with pytest.raises(ModelError, match="stablelm is computed by transformers, on the CPU only"):
        completer(foreign, device="cuda")


@pytest.mark.parametrize("found", [None, ModuleType("transformers")], ids=["none", "an older one"])
def test_without_a_transformers_that_may_know_it_the_refusal_names_one(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, found: ModuleType | None
) -> None:
    for name in [name for name in sys.modules if name.startswith("model_runtime.decoder.hf.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", found)
    with pytest.raises(ModelError, match=r"stablelm.*transformers 5\.23 or newer.*pip install '\.\[foreign\]'"):
        read_architecture(foreign)


def test_a_folder_with_an_adapter_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    folder = make_own(tmp_path / "own")
    (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        ModelError, match="where a whole model is needed: use the model that merge_and_unload of peft makes"
    ):
        completer(folder)


def test_a_model_of_our_own_decoder_imports_nothing_heavy() -> None:
    code = f"""
import sys
from efim_ls.completion.completer import Completer
from efim_ls.settings import Settings
Completer.load(Settings(weights="fp32"), lambda stage, percent: None)
print({HEAVY} & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
