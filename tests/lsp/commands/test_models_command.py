"""`efim-ls models`, on a hub's cache made on disk; nothing is there to ask."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from efim_ls.cli import main
from efim_ls.commands.models.running import RunningServer
from efim_ls.memory_shares import share_out
from efim_ls.settings import DEFAULTS
from model_runtime.checkpoint.config import ModelConfig
from model_runtime.errors import ModelError
from model_runtime.loading.known_models import KNOWN_MODELS
from model_runtime.loading.memory_fit import ModelSize, memory_need
from model_runtime.loading.pass_times import OUTSIDE_MS, PassTimes, key_costs
from model_runtime.loading.weight_format import CpuMethod
from model_runtime.prompt.families import FAMILIES
from tests.lsp.wire import ENV
from tests.models import LLAMA, Tiny, make
from tests.processes.command_line import status
from tests.waiting import HANG

COMMIT = "a" * 40
HERE = "Qwen/Qwen2.5-Coder-0.5B"  # known by its name; what lies under it is tiny
EMBEDDED_ONES = ["embedded, Python", "embedded, JavaScript and TypeScript"]
SERVERS = [RunningServer("llama.cpp", "http://127.0.0.1:8080", "/models/coder.gguf")]
NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}


Found = dict[str, dict[str, Any]]


def put(cache: Path, name: str, ref: str = "main", tiny: Tiny = LLAMA) -> Path:
    """A model as the hub's client keeps it."""
    stored = cache / f"models--{name.replace('/', '--')}"
    folder = make(stored / "snapshots" / COMMIT, tiny)
    (stored / "refs").mkdir()
    (stored / "refs" / ref).write_text(COMMIT)
    return folder


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models in the hub's cache, usable and not."""
    home = tmp_path_factory.mktemp("home")
    put(home / "hub", HERE)
    put(home / "hub", "me/own", ref="v1")
    put(home / "hub", "me/untied", tiny=Tiny(tied=False))
    replace(put(home / "hub", "me/other") / "config.json", '"llama"', '"mamba"')
    replace(put(home / "hub", "me/markerless") / "tokenizer.json", "<|fim_", "<|no_")
    (put(home / "hub", "me/by-layer") / "config.json").write_text('{"model_type": "deepseek_v4"}')
    (put(home / "hub", "me/pictures") / "config.json").write_text('{"model_type": "gemma3"}')
    (put(home / "hub", "me/part") / "model.safetensors").unlink()
    (home / "hub" / "models--me--empty").mkdir()
    (home / "hub" / "stray").write_text("x")
    return home


Told = Callable[..., str]


@pytest.fixture
def told(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """What the command prints in a terminal of so many columns, where passes of 1 and 64 rows take 2 and 16 ms."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr("efim_ls.commands.models.rows.measure_passes", _taken)
    monkeypatch.setattr("efim_ls.commands.models.rows.gguf_models", lambda: [])
    monkeypatch.setattr("efim_ls.commands.models.rows.running_servers", lambda: SERVERS)

    def told(*arguments: str, columns: int = 250) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert status(main, ["models", *arguments]) == 0
        printed, complaints = capsys.readouterr()
        assert complaints == ""
        return printed

    return told


@pytest.fixture
def shown(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Found]:
    """The list on a machine without models of the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return lambda: by_name(told("--json"))


def by_name(printed: str) -> Found:
    return {model["name"]: model for model in json.loads(printed)["models"]}


def _taken(_config: ModelConfig, ways: list[CpuMethod], _threads: int) -> dict[CpuMethod, PassTimes]:
    return {way: PassTimes(2.0, 3.0, 16.0) for way in ways}


@pytest.fixture(scope="module")
def found(home: Path) -> Found:
    """What is told where passes are measured."""
    env = {**ENV, **NOWHERE, "HF_HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home)}
    command = [sys.executable, "-m", "efim_ls", "models", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return by_name(done.stdout)


def test_known_models_and_those_on_disk_are_listed_once(home: Path, found: Found) -> None:
    on_disk = [*EMBEDDED_ONES, "me/by-layer", "me/markerless", "me/other", "me/own", "me/pictures", "me/untied", HERE]
    first, *_ = found
    names = [name for name in found if name != first or name in on_disk]
    assert sorted(names[: len(on_disk)], key=on_disk.index) == on_disk
    assert {*names[len(on_disk) :], first} - {*on_disk} == {
        known.name for known in KNOWN_MODELS if known.name != HERE
    }
    model, folder = found[HERE], home / "hub" / "models--Qwen--Qwen2.5-Coder-0.5B" / "snapshots" / COMMIT
    assert (model["folder"], model["revision"]) == (str(folder), COMMIT)
    assert (model["licence"], model["context"]) == ("Apache-2.0", Tiny().context)
    assert model["bytes_on_disk"] == sum(path.stat().st_size for path in folder.iterdir())
    assert (found["me/own"]["family"], found["me/own"]["licence"]) == ("qwen", None)
    absent = found[KNOWN_MODELS[1].name]
    assert (absent["folder"], absent["bytes_on_disk"], absent["parameters"]) == (
        None,
        None,
        KNOWN_MODELS[1].parameters,
    )


def test_what_fits_is_told_with_what_it_costs_about(found: Found) -> None:
    own, huge = found["me/own"], found["Qwen/Qwen2.5-Coder-32B"]
    assert "fp32" in own["fits"] and own["milliseconds"] > 0 and not own["measured"]
    assert bool(huge["fits"]) == (huge["milliseconds"] is not None)


def test_an_embedding_that_is_not_the_head_is_not_read(found: Found) -> None:
    own, untied = found["me/own"], found["me/untied"]
    assert untied["parameters"] > own["parameters"]
    assert untied["milliseconds"] == pytest.approx(own["milliseconds"])


def test_what_is_measured_here_is_told_as_such(found: Found) -> None:
    assert [name for name, model in found.items() if model["measured"]] == EMBEDDED_ONES


def test_the_embedded_models_costs_follow_from_its_passes(shown: Callable[[], Found]) -> None:
    embedded = shown()[EMBEDDED_ONES[0]]
    assert (embedded["milliseconds"], embedded["cold_milliseconds"]) == key_costs(2.0, 0.25)


def test_where_the_embedded_model_does_not_fit_nothing_was_measured(
    shown: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efim_ls.commands.models.rows.available_memory", lambda: 0)
    embedded = shown()[EMBEDDED_ONES[0]]
    assert (embedded["measured"], embedded["milliseconds"], embedded["fits"]) == (False, None, [])


def test_a_cold_place_of_other_models_is_estimated_by_what_the_embedded_one_takes(home: Path, found: Found) -> None:
    smaller, larger = found[KNOWN_MODELS[1].name], found[KNOWN_MODELS[2].name]
    assert KNOWN_MODELS[1].parameters < KNOWN_MODELS[2].parameters
    assert found[EMBEDDED_ONES[0]]["cold_milliseconds"] < smaller["cold_milliseconds"]
    assert smaller["cold_milliseconds"] < larger["cold_milliseconds"]


def test_where_nothing_can_be_computed_nothing_is_measured(
    shown: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(*_: Any) -> None:
        raise ModelError("no decoder")

    monkeypatch.setattr("efim_ls.commands.models.rows.choose_method", nowhere)
    told = shown().values()
    assert {model["cold_milliseconds"] for model in told} == {None}
    assert not any(model["measured"] for model in told)


def test_what_cannot_be_used_says_why(found: Found) -> None:
    assert "mamba" in found["me/other"]["problem"]
    assert "fill-in-the-middle" in found["me/markerless"]["problem"]
    assert found["me/other"]["fits"] == []
    assert "shape of the configuration of 'deepseek_v4'" in found["me/by-layer"]["problem"]
    assert "'gemma3' reads more than text" in found["me/pictures"]["problem"]
    unusable = ["me/by-layer", "me/markerless", "me/other", "me/pictures"]
    assert [name for name, model in found.items() if model["problem"]] == unusable


def test_the_table_can_be_read(told: Told) -> None:
    lines = [" ".join(line.replace("│", " ").split()) for line in told().splitlines()]
    own = next(line for line in lines if line.startswith("me/own@aaaaaaa"))
    assert "0M 0.00G" in own and "~" in own
    assert any(line.startswith("Qwen/Qwen2.5-Coder-1.5B 1.5B ~") for line in lines)
    assert any(line.startswith("me/other@aaaaaaa") and line.endswith("cannot be used") for line in lines)


def test_no_name_is_broken_in_80_columns(told: Told) -> None:
    lines = told(columns=80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    for known in KNOWN_MODELS:
        if known.name != HERE:
            assert any(line.startswith(f"{known.name} ") for line in lines)


def test_a_name_is_broken_after_its_owner_in_a_narrow_terminal(told: Told) -> None:
    lines = [line.split(" ")[0:2] for line in told(columns=60).splitlines()]
    assert ["mistralai/", ""] in lines and ["", "Codestral-22B-v0.1"] in lines


def test_json_says_what_a_list_to_choose_from_needs(found: Found) -> None:
    embedded, cached, absent = found[EMBEDDED_ONES[0]], found[HERE], found[KNOWN_MODELS[1].name]
    assert [(each["setting"], each["downloaded"]) for each in (embedded, cached, absent)] == [
        ("", True),
        (HERE, True),
        (KNOWN_MODELS[1].name, False),
    ]
    assert [name for name, model in found.items() if model["current"]] == EMBEDDED_ONES
    assert not embedded["answers_second"] and absent["answers_second"], absent


def test_what_is_here_comes_first_and_the_quickest_of_the_others_next(found: Found) -> None:
    rows = [*found.values()][1:]  # the first is the recommended one
    here = [row["downloaded"] for row in rows]
    assert here == sorted(here, reverse=True)
    times = [row["milliseconds"] for row in rows if not row["downloaded"]]
    known = [each for each in times if each is not None]
    assert len(known) > 5 and times == [*sorted(known), *(None for each in times if each is None)]


@pytest.mark.parametrize("named", ["me/own", KNOWN_MODELS[1].name, "folder", "gone"])
def test_the_model_in_use_is_marked(told: Told, tmp_path: Path, named: str) -> None:
    setting = str(tmp_path / named) if named in ("folder", "gone") else named
    if named == "folder":
        make(tmp_path / named)
    models = json.loads(told("--json", "--model", setting))["models"]
    assert [model["setting"] for model in models if model["current"]] == ([setting] if named != "gone" else [])


def test_nothing_is_cut_in_a_narrow_terminal(told: Told) -> None:
    assert "…" not in (printed := told(columns=60))
    assert " 15B " in printed


def test_an_estimate_is_one_reading_of_the_weights_that_fit_beside_the_arenas(
    shown: Callable[[], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    size, kv = (
        ModelSize(KNOWN_MODELS[1].parameters, KNOWN_MODELS[1].matrix),
        share_out(DEFAULTS.memory_mib).arenas << 20,
    )
    monkeypatch.setattr(
        "efim_ls.commands.models.rows.available_memory", lambda: memory_need(size, "fp16", kv).total - 1
    )
    monkeypatch.setattr("efim_ls.commands.models.rows.memory_bandwidth", lambda: 1e9)
    monkeypatch.setattr("efim_ls.commands.models.rows.supported_formats", lambda config: ["fp32", "fp16", "int8"])
    found = shown()
    assert found[KNOWN_MODELS[1].name]["fits"] == ["int8"]
    assert found[KNOWN_MODELS[1].name]["milliseconds"] == pytest.approx(KNOWN_MODELS[1].parameters / 1e6 + OUTSIDE_MS)


def test_without_a_cache_of_the_hub_there_are_the_embedded_models_and_what_is_known(
    shown: Callable[[], Found],
) -> None:
    assert len(shown()) == len(EMBEDDED_ONES) + len(SERVERS) + len(KNOWN_MODELS)


def test_a_server_on_this_machine_is_one_of_them(shown: Callable[[], Found]) -> None:
    server = shown()["llama.cpp server: /models/coder.gguf"]
    assert (server["setting"], server["engine"]) == ("/models/coder.gguf", "http://127.0.0.1:8080")
    assert (server["speed"], server["fits"]) == ("runs at http://127.0.0.1:8080", [])


@pytest.mark.parametrize("bandwidth", [1e8, 1e9, 3e10])
def test_the_recommended_model_comes_first_and_the_table_marks_it(
    told: Told, monkeypatch: pytest.MonkeyPatch, bandwidth: float
) -> None:
    monkeypatch.setattr("efim_ls.commands.models.rows.available_memory", lambda: 16 << 30)
    monkeypatch.setattr("efim_ls.commands.models.rows.memory_bandwidth", lambda: bandwidth)
    models = json.loads(told("--json"))["models"]
    first = models[0]
    assert {model["setting"] for model in models if model["recommended"]} == {first["setting"]}
    lines = [line.strip() for line in told().splitlines()]
    rows = lines[next(at for at, line in enumerate(lines) if line.startswith("─")) + 1 :]
    assert rows[0].startswith(first["name"]) and rows[1] in ("recommended", "recommended, in use")


def test_known_models_have_markers_that_are_known() -> None:
    assert {known.family for known in KNOWN_MODELS} <= {family.name for family in FAMILIES}
    assert len({known.name for known in KNOWN_MODELS}) == len(KNOWN_MODELS)
    assert all(known.matrix < known.parameters / 3 for known in KNOWN_MODELS)
