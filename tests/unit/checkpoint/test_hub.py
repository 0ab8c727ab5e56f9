"""Models of the hub: fetched by the hub's own client from a real server, which tells what it was asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import HFValidationError, validate_repo_id
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.models.open import fetch
from efim_ls.settings import Settings
from model_runtime.checkpoint import hub_names
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.hub import download
from model_runtime.checkpoint.hub.fetch import fetch_folder, fetch_tokenizer
from model_runtime.checkpoint.hub_names import REPOSITORY_NAME as NAMES
from model_runtime.checkpoint.hub_names import (
    HubName,
    cached_folder,
    cached_models,
    hub_name,
    hub_origin,
    local_folder,
)
from model_runtime.checkpoint.weights import read_weights
from model_runtime.errors import ModelError
from model_runtime.machine import install_command
from tests.models import shard
from tests.unit.checkpoint.hub_server import COMMIT, TOKEN, Hub
from tests.unit.checkpoint.published import NEVER, folder, hub
from tests.waiting import HANG

__all__ = ["folder", "hub"]
NAME = "owner/tiny"


def fetched(
    revision: str = "",
    progress: Callable[[str, int], None] = lambda said, percent: None,
    check: Callable[[Path, int], None] = lambda folder, size: None,
) -> Path:
    return fetch_folder(HubName(NAME, revision), progress, check)


def refusal(revision: str = "") -> str:
    with pytest.raises(ModelError) as caught:
        fetched(revision)
    return str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_fetched_is_what_is_published_and_nothing_else_is_asked_for(hub: Hub, folder: Path) -> None:
    published = contents(folder)
    assert contents(fetched()) == {name: data for name, data in published.items() if name not in NEVER}
    assert set(hub.files_asked()) | set(hub.files_asked("HEAD")) == set(published) - set(NEVER)
    assert {line.split("/")[1] for line in hub.asked} == {"api", "owner"}
    assert [line for line in hub.asked if "/api/" in line] == [f"GET /api/models/{NAME}/revision/main"]


def test_weights_in_shards_are_fetched(hub: Hub, folder: Path) -> None:
    shard(folder)
    published = contents(folder)
    assert contents(fetched()) == {name: data for name, data in published.items() if name not in NEVER}


def test_progress_rises_to_all_of_it(hub: Hub) -> None:
    told: list[tuple[str, int]] = []
    fetched(progress=lambda said, percent: told.append((said, percent)))
    percents = [percent for _, percent in told]
    assert percents == sorted(percents) and percents[0] == 0 and percents[-1] == 100
    assert all(NAME in said for said, _ in told)


def test_what_lies_here_is_used_without_the_network(hub: Hub) -> None:
    assert cached_folder(NAME, "") is None
    there = fetched()
    asked = len(hub.asked)
    assert cached_folder(NAME, "") == cached_folder(NAME, "main") == cached_folder(NAME, COMMIT) == there
    assert len(hub.asked) == asked


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_lies_here_in_part_is_not_used(hub: Hub, name: str) -> None:
    (fetched() / name).unlink()
    assert cached_folder(NAME, "") is None and cached_models() == []
    assert fetched() == cached_folder(NAME, "")


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/1", COMMIT])
def test_a_revision_is_a_branch_a_tag_or_a_commit(hub: Hub, revision: str) -> None:
    hub.revisions = {"v1.0": COMMIT, "refs%2Fpr%2F1": COMMIT}
    there = fetched(revision)
    assert hub_origin(there) == (NAME, COMMIT)
    assert cached_folder(NAME, revision) == there
    assert cached_models()[0].refs == (() if revision == COMMIT else (revision,))
    assert cached_folder(NAME, "other") is None


def test_a_revision_that_it_does_not_have_is_named(hub: Hub) -> None:
    assert "no revision 'v9'" in refusal("v9") and "set revision to" in refusal("v9")


@pytest.mark.parametrize("revision", ["../../x", "/etc", "a b", "-\n", "a/../b"])
def test_what_cannot_be_a_revision_is_refused_before_anything_is_asked(hub: Hub, revision: str) -> None:
    assert "not a valid revision" in refusal(revision)
    with pytest.raises(ModelError):
        cached_folder(NAME, revision)
    assert hub.asked == []


def test_what_was_fetched_is_listed(hub: Hub) -> None:
    there = fetched("main")
    [found] = cached_models()
    assert (found.name, found.commit, found.refs, found.folder) == (NAME, COMMIT, ("main",), there)
    assert found.size == sum(len(data) for data in contents(there).values())


class Enough(Exception):
    pass


def test_fetching_that_is_stopped_goes_on_from_there(hub: Hub, folder: Path) -> None:
    """Also in another process: all that is left of the first try is a file."""

    def stop(said: str, percent: int) -> None:
        if percent >= 20:
            raise Enough

    with pytest.raises(Enough):
        fetched(progress=stop)
    assert cached_folder(NAME, "") is None
    told: list[int] = []
    there = fetched(progress=lambda said, percent: told.append(percent))
    assert min(told[1:]) >= 20
    [wanted] = hub.ranges
    size = (folder / "model.safetensors").stat().st_size
    assert size // 5 <= int(wanted.removeprefix("bytes=").rstrip("-")) < size
    assert (there / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_connection_that_breaks_off_is_taken_up_again(hub: Hub, folder: Path) -> None:
    size = (folder / "model.safetensors").stat().st_size
    hub.drop_after = part = size // (2 * download.TRIES)
    assert contents(fetched())["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    assert hub.ranges == [f"bytes={start}-" for start in range(part, size, part)]


def test_a_connection_that_brings_nothing_is_given_up(hub: Hub) -> None:
    hub.drop_after = 0
    assert "cannot be reached" in refusal()
    assert hub.files_asked().count("model.safetensors") == download.TRIES


def test_what_is_damaged_is_removed_and_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    whole = fetched() / "model.safetensors"
    blob = whole.resolve()
    whole.unlink()
    blob.rename(download.incomplete_path(blob))
    download.incomplete_path(blob).write_bytes(b"damaged" * 100)
    assert "is damaged" in refusal()
    assert cached_folder(NAME, "") is None
    assert fetched() == cached_folder(NAME, "")


def test_more_than_the_file_has_is_not_taken(hub: Hub, folder: Path, tmp_path: Path) -> None:
    """Nor read to its end, of which there may be none."""
    hub.more, told = 100 * (folder / "model.safetensors").stat().st_size, list[int]()
    with pytest.raises(ModelError, match="is damaged and was removed"):
        fetched(progress=lambda said, percent: told.append(percent))
    assert 100 < max(told) < 1000
    assert not [*tmp_path.rglob("*.incomplete")]
    hub.more = 0
    assert fetched() == cached_folder(NAME, "")


def test_two_servers_fetch_once(hub: Hub) -> None:
    """The one that comes second waits, and tells so."""
    hub.slow = threading.Event()
    both, found, telling = threading.Barrier(3), list[Path](), threading.local()

    def progress(said: str, percent: int) -> None:
        if said.startswith("fetching") and not hasattr(telling, "once"):
            telling.once = both.wait(HANG)

    threads = [threading.Thread(target=lambda: found.append(fetched(progress=progress))) for _ in range(2)]
    for thread in threads:
        thread.start()
    both.wait(HANG)
    hub.slow.set()
    for thread in threads:
        thread.join(HANG)
    assert found == [cached_folder(NAME, "")] * 2
    assert hub.files_asked().count("model.safetensors") == 1


def test_what_cannot_be_used_here_is_refused_before_its_weights_are_asked_for(hub: Hub, folder: Path) -> None:
    def check(there: Path, size: int) -> None:
        assert {"config.json", "tokenizer.json"} <= contents(there).keys()
        assert size == (folder / "model.safetensors").stat().st_size
        raise ModelError("too large")

    with pytest.raises(ModelError, match="too large"):
        fetched(check=check)
    assert "model.safetensors" not in hub.files_asked()


def test_beside_another_model_what_that_one_holds_counts_as_free(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, silent = Settings(model=NAME, device="cpu", weights="fp32"), lambda said, percent: None
    monkeypatch.setattr("model_runtime.loading.memory_fit.available_memory", lambda: 0)
    monkeypatch.setattr("efim_ls.completion.models.open.releasable_memory", lambda: 1 << 10)
    with pytest.raises(ModelError, match="are free here"):
        fetch(settings, silent, beside=True)
    assert "model.safetensors" not in hub.files_asked()
    monkeypatch.setattr("efim_ls.completion.models.open.releasable_memory", lambda: 1 << 30)
    with pytest.raises(ModelError, match="are free here"):
        fetch(settings, silent, beside=False)
    assert "model.safetensors" not in hub.files_asked()
    fetch(settings, silent, beside=True)
    assert cached_folder(NAME, "")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_repository_that_lacks_what_is_needed_is_refused(hub: Hub, folder: Path, missing: str) -> None:
    for name in (missing, "model.gguf"):
        (folder / name).unlink()
    assert missing in refusal()
    assert hub.files_asked() == []


@pytest.mark.parametrize("named", ["../x.safetensors", "/x.safetensors", "model.bin", "absent.safetensors"])
def test_an_index_that_names_what_is_no_shard_is_refused(hub: Hub, folder: Path, named: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(f'{{"weight_map": {{"a": "{named}"}}}}')
    assert named in refusal()
    assert [name for name in hub.files_asked() if not name.endswith(".json")] == []


def test_a_repository_that_is_not_there_is_named_with_both_readings(hub: Hub) -> None:
    hub.repositories.clear()
    assert f"no folder {NAME} here" in refusal() and "no such model on the hub" in refusal()


@pytest.mark.parametrize("kind", ["gated", "private"])
def test_a_token_is_sent_where_it_is_needed(hub: Hub, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    getattr(hub, kind).add(NAME)
    assert "hf auth login" in refusal()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert fetched() == cached_folder(NAME, "")
    assert hub.tokens


def test_no_token_is_sent_where_none_is_needed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    fetched()
    assert hub.tokens == []


def test_without_network_it_says_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    assert "cannot be reached" in refusal() and "try again online" in refusal()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "cannot be reached" in refusal()


def test_a_disk_without_room_is_told_before_the_weights_are_asked_for(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100_000))
    assert "make room" in refusal()
    assert "model.safetensors" not in hub.files_asked()


def test_a_disk_that_becomes_full_is_told(hub: Hub) -> None:
    def full(said: str, percent: int) -> None:
        if percent > 20:
            raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="the disk is full.*resumes"):
        fetched(progress=full)


def test_a_name_is_a_folder_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_folder(NAME) is None
    (tmp_path / NAME).mkdir(parents=True)
    assert local_folder(NAME) == Path(NAME)
    assert local_folder(str(tmp_path / NAME)) == local_folder(f"~/{NAME}") == tmp_path / NAME
    assert local_folder("") == EMBEDDED
    assert hub_origin(tmp_path / NAME) == (str(tmp_path / NAME), "")


NEITHER = ["/no/such/folder", "~/nothing", "models", "a/b/c", "./a/b", "a/b\n", "..//x", "~nosuchuser/x", "x" * 300]
NEITHER += ["a--b/c", "a/b--c", "owner/na..me", "owner/name.", "owner/name-", "-a/b", ".a/b", "a./b", "a/b.git"]
NEITHER += [f"a/{'b' * 97}", f"{'a' * 300}/{'b' * 300}", "a/é"]


@pytest.mark.parametrize("name", NEITHER)
def test_what_is_neither_is_told_with_both_readings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="not a folder here, and models of the hub are named owner/name"):
        local_folder(name)


parts = st.from_regex(r"[ab0_.-]{1,6}|[ab0_.-]{95,97}|a\.git", fullmatch=True)


@given(st.builds("{}/{}".format, parts, parts))
def test_what_is_taken_for_a_name_the_client_of_the_hub_takes(name: str) -> None:
    try:
        validate_repo_id(name)
    except HFValidationError:
        assert not NAMES.fullmatch(name)
    else:
        assert NAMES.fullmatch(name)


def test_a_model_in_a_folder_needs_no_client_of_the_hub() -> None:
    """Nor transformers, which takes seconds to import."""
    told = "from efim_ls.completion.completer import Completer; from efim_ls.settings import Settings; import sys;"
    told += "Completer.load(Settings(weights='fp32', persist=False), lambda said, percent: None);"
    told += "print({'huggingface_hub', 'transformers', 'httpx2'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=HANG, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"[]", b"{}"], ids=["a page", "a list", "nothing"])
def test_what_is_not_the_hub_is_told_as_such(hub: Hub, page: bytes) -> None:
    hub.page = page
    assert re.search("did not come from the hub .*: log in to this network, or check HF_ENDPOINT", refusal())


def test_a_damaged_file_is_fetched_again_once_it_is_removed(hub: Hub) -> None:
    weights = fetched() / "model.safetensors"
    blob = weights.resolve()
    blob.write_bytes(blob.read_bytes()[:-64])
    with pytest.raises(ModelError, match=f"remove {blob}, and it is fetched again"):
        read_weights(weights.parent, read_config(weights.parent))
    blob.unlink()
    assert cached_folder(NAME, "") is None
    assert read_weights(fetched(), read_config(weights.parent))


def test_without_the_hubs_client_its_models_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_names, "find_spec", lambda name: None)
    assert hub_names.cached_models() == []
    remedy = re.escape(install_command("huggingface_hub"))
    with pytest.raises(ModelError, match=f"owner/tiny is a model of the hub.*: run {remedy}$"):
        hub_names.cached_folder("owner/tiny", "")


def test_a_model_of_the_hub_may_name_its_revision() -> None:
    assert hub_name("owner/name@refs/pr/1") == ("owner/name", "refs/pr/1", "")
    assert hub_name("owner/name@v1:Q4_0") == ("owner/name", "v1", "Q4_0")
    assert hub_name("owner/name") == ("owner/name", "", "")
    assert local_folder("owner/name@main") is None


def test_a_folder_may_have_an_at_sign_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "model@work"
    folder.mkdir()
    assert local_folder(str(folder)) == folder


def test_a_tokenizer_is_fetched_without_weights(hub: Hub) -> None:
    folder = fetch_tokenizer(NAME, "", lambda said, percent: None)
    assert {"config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert not any("model" in name for name in hub.files_asked())
    assert cached_folder(NAME, "") is None and cached_folder(NAME, "", weights=False) == folder
    assert contents(fetched()).keys() >= {"model.safetensors"}
