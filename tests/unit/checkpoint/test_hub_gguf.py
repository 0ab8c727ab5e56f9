"""Models in GGUF on the hub: the file that is meant, its header first, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.models.elsewhere import fetch_elsewhere, tokenizer_folder
from efim_ls.completion.models.open import fetch
from efim_ls.settings import Settings
from model_runtime.checkpoint.gguf.choice import PREFERRED, choose_file
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.hub import fetch as fetching
from model_runtime.checkpoint.hub.fetch import fetch_folder
from model_runtime.checkpoint.hub_names import cached_folder, cached_models, gguf_models, hub_name, hub_origin
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_checkpoint
from tests.engine.gguf_files import write
from tests.models import Tiny, make
from tests.unit.checkpoint.hub_server import COMMIT, Hub
from tests.unit.checkpoint.published import hub

__all__ = ["hub"]
NAME = "owner/tiny"
KINDS = ("F16", "Q4_0", "Q8_0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is published: a model in three quantizations, and what is never to be asked for."""
    (folder := tmp_path / "published").mkdir()
    tiny = make(tmp_path / "tiny", Tiny(hidden=64, intermediate=96))
    for kind in KINDS:
        write(folder / f"model-{kind}.gguf", tiny, kind)
    for name in ("README.md", "mmproj-model-Q4_0.gguf"):
        (folder / name).write_bytes(b"never")
    return folder


def fetched(
    model: str = NAME,
    progress: Callable[[str, int], None] = lambda said, percent: None,
    check: Callable[[Path, int], None] = lambda path, size: None,
) -> Path:
    return fetch_folder(hub_name(model), progress, check)


@pytest.mark.parametrize(("model", "kind"), [(NAME, "Q4_0"), (f"{NAME}:q8_0", "Q8_0"), (f"{NAME}@main:F16", "F16")])
def test_the_quantization_that_is_named_is_fetched_and_nothing_else(
    hub: Hub, folder: Path, model: str, kind: str
) -> None:
    assert cached_folder(*hub_name(model)) is None
    there, asked = fetched(model), len(hub.asked)
    name = f"model-{kind}.gguf"
    assert there.name == name and there.read_bytes() == (folder / name).read_bytes()
    assert set(hub.files_asked()) == {name}
    assert cached_folder(*hub_name(model)) == cached_folder(NAME, "") == there and len(hub.asked) == asked
    assert hub_origin(there) == (f"{NAME}/{name}", COMMIT)
    assert [each.path for each in gguf_models() if each.name.startswith(NAME)] == [there] and cached_models() == []
    assert read_checkpoint(there).quantization == kind


def test_another_quantization_is_fetched_where_one_is_here(hub: Hub) -> None:
    first, second = fetched(f"{NAME}:Q8_0"), fetched(f"{NAME}:Q4_0")
    assert (first.name, second.name) == ("model-Q8_0.gguf", "model-Q4_0.gguf")
    assert cached_folder(NAME, "", "F16") is None and cached_folder(NAME, "") == second


def test_safetensors_come_first_unless_a_quantization_is_named(hub: Hub, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "tiny", folder, dirs_exist_ok=True)
    assert fetched().is_dir() and not [name for name in hub.files_asked() if name.endswith(".gguf")]
    there = fetched(f"{NAME}:Q4_0")
    assert there == cached_folder(NAME, "", "Q4_0") and cached_folder(NAME, "") == there.parent


def test_what_cannot_be_used_here_is_refused_by_its_header_alone(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = folder / "model-Q4_0.gguf"
    weights = sum(len(place.content) for place in read_header(file).tensors.values())
    header = file.stat().st_size - weights + 1
    monkeypatch.setattr(fetching, "MOST_HEADER", header)
    hub.drop_after = 1000  # of each answer, so that no more comes than is asked for

    def check(path: Path, size: int) -> None:
        assert size == path.stat().st_size == file.stat().st_size
        assert read_checkpoint(path).config.hidden
        raise ModelError("too large")

    with pytest.raises(ModelError, match="too large"):
        fetched(check=check)
    [blob] = tmp_path.glob("cache/hub/models--owner--tiny/blobs/*")
    assert header <= blob.stat().st_size < header + 1000 < file.stat().st_size
    assert cached_folder(NAME, "") is None
    hub.drop_after = None
    told: list[int] = []
    assert fetched(progress=lambda said, percent: told.append(percent)).read_bytes() == file.read_bytes()
    assert told == sorted(told) and told[-1] == 100
    assert int(hub.ranges[-1].removeprefix("bytes=").rstrip("-")) >= header  # it went on behind what was there


def test_the_server_has_memory_checked_before_it_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(model=f"{NAME}:Q8_0", device="cpu")
    with monkeypatch.context() as patch, pytest.raises(ModelError, match="are free here"):
        patch.setattr("model_runtime.loading.memory_fit.available_memory", lambda: 0)
        fetch(settings, lambda said, percent: None, beside=False)
    assert cached_folder(NAME, "", "Q8_0") is None
    fetch(settings, lambda said, percent: None, beside=False)
    assert cached_folder(NAME, "", "Q8_0")


def test_of_a_server_s_model_the_tokenizer_is_fetched_whatever_its_quantization(
    hub: Hub, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "tiny", folder, dirs_exist_ok=True)
    settings = Settings(model=f"{NAME}:Q8_0")
    fetch_elsewhere(settings, lambda said, percent: None)
    there = tokenizer_folder(settings)
    assert there is not None and (there / "tokenizer.json").is_file()
    assert all(name.endswith(".json") for name in hub.files_asked())


@pytest.mark.parametrize("missing", [None, 2])
def test_a_model_in_parts_is_fetched_with_all_of_them(
    hub: Hub, folder: Path, tmp_path: Path, missing: int | None
) -> None:
    write(folder / "large" / "model-Q4_0.gguf", tmp_path / "tiny", "Q4_0", parts=3)
    for kind in KINDS:
        (folder / f"model-{kind}.gguf").unlink()
    parts = sorted((folder / "large").iterdir())
    if missing is not None:
        parts[missing].unlink()
        with pytest.raises(ModelError, match=f"{NAME} lacks its part large/{parts[missing].name}: choose another"):
            fetched()
        return
    there = fetched(check=lambda path, size: None if read_checkpoint(path).config else None)
    assert sorted(path.name for path in there.parent.iterdir()) == [path.name for path in parts]
    assert there.name == parts[0].name and read_checkpoint(there).quantization == "Q4_0"
    (there.parent / parts[1].name).unlink()
    assert cached_folder(NAME, "") is None


def test_a_quantization_that_it_lacks_is_told_with_those_that_it_has(hub: Hub) -> None:
    with pytest.raises(ModelError) as refused:
        fetched(f"{NAME}:Q5_K_M")
    assert str(refused.value) == (
        "owner/tiny has no GGUF file with Q5_K_M in its name (model-F16.gguf, model-Q4_0.gguf, model-Q8_0.gguf): "
        "name the quantization of one, as in owner/tiny:Q4_0"
    )
    assert hub.files_asked() == []


QUANTIZATIONS = [
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q4_K_XL"),
    *("Q5_K_M", "Q6_K", "IQ4_XS", "IQ4_NL", "Q4_XS", "IQ1_S", "Q4_0_4_4", "F16", "BF16", "F32"),
]
OUTSIDE = ["../model-Q4_0.gguf", "/model-Q4_0.gguf", "a/../../Q4_0.gguf", "..\\Q4_0.gguf", "C:Q4_0.gguf"]
names = st.sampled_from(["model-{}", "Model.{}", "qwen2.5-coder_{}", "{0}/m-{0}-00001-of-00002", "ud-{}"])


@given(names, st.lists(st.sampled_from(QUANTIZATIONS), unique=True, min_size=1), st.data())
def test_a_quantization_names_the_file_that_has_it_in_any_case(
    form: str, there: list[str], data: st.DataObject
) -> None:
    files = {each: f"{form.format(each)}.gguf" for each in there}
    listed = ["README.md", "mmproj-Q4_0.gguf", *OUTSIDE, *files.values()]
    wanted = data.draw(st.sampled_from(QUANTIZATIONS))
    asked = data.draw(st.sampled_from([wanted, wanted.lower()]))
    if wanted in files:
        assert choose_file(NAME, listed, asked) == files[wanted]
    else:
        with pytest.raises(ModelError, match=f"no GGUF file with {asked} in its name"):
            choose_file(NAME, listed, asked)
    usual = [each for each in PREFERRED if each in files]
    if usual or len(files) == 1:
        assert choose_file(NAME, listed) == files[usual[0] if usual else there[0]]
    else:
        with pytest.raises(ModelError, match="has several GGUF files .*: name the quantization of one"):
            choose_file(NAME, listed)
