"""Fetches a repository of the hub: small files first, then the weights if the model can be used here."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from model_runtime.checkpoint.gguf.choice import choose_file, is_gguf
from model_runtime.checkpoint.gguf.header import MOST_HEADER, part_paths
from model_runtime.checkpoint.gguf.kinds import gguf_package
from model_runtime.checkpoint.hub.download import RemoteFile, Report, download, incomplete_path, retry
from model_runtime.checkpoint.hub_names import REQUIRED_FILES, HubName, checked_revision, storage_folder
from model_runtime.checkpoint.weight_files import ADAPTER_FILE, INDEX_FILE, SINGLE_FILE, shard_names
from model_runtime.errors import ModelError

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

SMALL_FILES = (
    *REQUIRED_FILES, "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "local_cache.json",
    "sureness.json",
)  # fmt: skip
LISTING_TIMEOUT = 10.0  # seconds to wait for the list of a repository's files
GB = 1e9

Progress = Callable[[str, int], None]
Check = Callable[[Path, int], None]  # takes the folder without the weights, and their bytes


@dataclass(frozen=True)
class RepositoryFile:
    """A file of a repository: its size in bytes and, if it is a large one, the SHA-256 of its content."""

    size: int
    sha256: str | None


@dataclass(frozen=True)
class Repository:
    """A repository of the hub at one commit; `token` says whether it requires the user's token."""

    name: str
    commit: str
    token: bool
    files: dict[str, RepositoryFile]


def fetch_folder(named: HubName, progress: Progress, check: Check) -> Path:
    """Fetch the missing files of a repository and return its folder, or its GGUF file; ModelError if that fails.

    GGUF is fetched if a quantization is named, or if there are no other weights. `check` may refuse it before the
    weights are fetched. An exception of `progress` ends the download, which resumes there the next time.
    """
    name, revision, quantization = named
    with _asked(name, revision, progress) as repository:
        if quantization or (not _has_safetensors(repository) and any(map(is_gguf, repository.files))):
            return _fetch_gguf(repository, quantization, progress, check)
        _refuse_unusable(repository)
        folder = _fetch_files(repository, [each for each in SMALL_FILES if each in repository.files], _silent)
        names = _weights_of(repository)
        total = sum(repository.files[each].size for each in names)
        check(folder, total)
        _refuse_without_room(repository, names)
        _fetch_files(repository, names, _byte_progress(f"fetching {name}", total, progress))
    return folder


def _fetch_gguf(repository: Repository, quantization: str, progress: Progress, check: Check) -> Path:
    """Fetch a model in GGUF: first the beginnings of its files, which have all but the weights, and are checked."""
    gguf_package()
    first = choose_file(repository.name, repository.files, quantization)
    names = [path.as_posix() for path in part_paths(Path(first))]
    if missing := [each for each in names if each not in repository.files]:
        raise ModelError(f"{repository.name} lacks its part {missing[0]}: choose another file or repository")
    total = sum(repository.files[each].size for each in names)
    with TemporaryDirectory() as folder:
        paths = [Path(folder, Path(each).name) for each in names]
        for each, path in zip(names, paths, strict=True):
            begun = download(*_place(repository, each), lambda _: progress(f"reading {first}", 0), MOST_HEADER)
            with begun.open("rb") as file, path.open("wb") as copy:
                copy.write(file.read(MOST_HEADER))
                copy.truncate(repository.files[each].size)  # what follows takes no room
        check(paths[0], total)
    _refuse_without_room(repository, names)
    _fetch_files(repository, names, _byte_progress(f"fetching {first}", total, progress))
    return storage_folder(repository.name) / "snapshots" / repository.commit / first


def fetch_tokenizer(name: str, revision: str, progress: Progress) -> Path:
    """Fetch the missing small files of a repository, without weights, and return its folder; ModelError."""
    with _asked(name, revision, progress) as repository:
        _refuse_without(repository, REQUIRED_FILES)
        return _fetch_files(repository, [each for each in SMALL_FILES if each in repository.files], _silent)


@contextmanager
def _asked(name: str, revision: str, progress: Progress) -> Generator[Repository]:
    """Ask for a repository, and note its commit once its files are here; a failure of the hub is a ModelError."""
    import httpx2

    revision = checked_revision(revision)
    progress(f"asking the hub for {name}", 0)
    try:
        repository = _list_repository(name, revision)
        yield repository
        if revision != repository.commit:
            _note_revision(repository, revision)
    except (httpx2.HTTPError, OSError) as error:
        raise ModelError(_explanation(name, revision, error)) from error


def _list_repository(name: str, revision: str) -> Repository:
    from huggingface_hub import HfApi, constants, get_token
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    constants.HF_HUB_DISABLE_TELEMETRY = True  # it would make requests that are of no use to a user

    def ask(token: bool) -> ModelInfo:
        try:
            return HfApi().model_info(
                name, revision=revision, timeout=LISTING_TIMEOUT, files_metadata=True, token=token
            )
        except (ValueError, TypeError, KeyError) as error:  # a page instead of a description, as of a captive portal
            cause = f"the answer did not come from the hub ({type(error).__name__})"
            raise ModelError(f"{cause}: log in to this network, or check HF_ENDPOINT") from error

    try:
        info, token = ask(token=False), False
    except RepositoryNotFoundError as error:  # the hub answers so for private ones, too
        if isinstance(error, GatedRepoError) or get_token() is None:
            raise
        info, token = ask(token=True), True
    files = {
        each.rfilename: RepositoryFile(each.size or 0, each.lfs.sha256 if each.lfs else None)
        for each in info.siblings or ()
    }
    return Repository(name, str(info.sha), token or bool(info.gated), files)


def _refuse_unusable(repository: Repository) -> None:
    name, files = repository.name, repository.files
    if ADAPTER_FILE in files and "config.json" not in files:
        how = f"run `hf download {name} --local-dir FOLDER`, and name that folder"
        raise ModelError(f"{name} is an adapter, which is not fetched from the hub: {how}")
    if not _has_safetensors(repository):
        how = "nothing but safetensors and GGUF is fetched: choose another repository"
        raise ModelError(f"{name} has no {SINGLE_FILE} on the hub, and {how}")
    _refuse_without(repository, REQUIRED_FILES)


def _has_safetensors(repository: Repository) -> bool:
    return SINGLE_FILE in repository.files or INDEX_FILE in repository.files


def _refuse_without(repository: Repository, names: Iterable[str]) -> None:
    for needed in names:
        if needed not in repository.files:
            how = "which every model needs: choose another repository"
            raise ModelError(f"{repository.name} has no {needed} on the hub, {how}")


def _weights_of(repository: Repository) -> list[str]:
    if SINGLE_FILE in repository.files:
        return [SINGLE_FILE]
    names = shard_names(_fetch_files(repository, [INDEX_FILE], _silent) / INDEX_FILE)
    for name in names:
        if name not in repository.files:
            raise ModelError(f"{repository.name} lacks its shard {name}: choose another repository")
    return names


def _fetch_files(repository: Repository, names: Iterable[str], report: Report) -> Path:
    """Fetch files of a repository into the hub's cache and return their folder."""
    from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]

    paths: list[str] = []
    for name in names:
        if repository.files[name].sha256:
            download(*_place(repository, name), report)
        ask = partial(hf_hub_download, repository.name, name, revision=repository.commit, token=repository.token)
        paths.append(retry(ask, report))
    return Path(paths[0]).parent


def _place(repository: Repository, name: str) -> tuple[RemoteFile, Path, Path]:
    """Return where a large file comes from, where it goes, and the lock that others wait for."""
    from huggingface_hub import get_token, hf_hub_url

    blob, stored = _blob_path(repository, name), storage_folder(repository.name)
    url = hf_hub_url(repository.name, name, revision=repository.commit)
    headers = {"authorization": f"Bearer {get_token()}"} if repository.token else {}
    source = RemoteFile(url, headers, repository.files[name].size, blob.name)
    return source, blob, stored.parent / ".locks" / stored.name / f"{blob.name}.lock"


def _blob_path(repository: Repository, name: str) -> Path:
    """Return where the hub's client looks for the content of a large file."""
    sha256 = repository.files[name].sha256 or ""
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ModelError(f"the hub lists no SHA-256 for {name} of {repository.name}: choose another repository")
    return storage_folder(repository.name) / "blobs" / sha256


def _refuse_without_room(repository: Repository, names: list[str]) -> None:
    missing, stored = 0, storage_folder(repository.name)
    for name in names:
        blob = _blob_path(repository, name)
        here = [path.stat().st_size for path in (blob, incomplete_path(blob)) if path.exists()]
        missing += repository.files[name].size - sum(here)
    free = shutil.disk_usage(stored).free
    if missing > free:
        sizes = f"{missing / GB:.1f} GB must be fetched and {free / GB:.1f} are free"
        raise ModelError(f"{repository.name} does not fit on the disk of {stored.parent} ({sizes}): make room there")


def _byte_progress(what: str, total: int, progress: Progress) -> Report:
    come = 0

    def report(new: int) -> None:
        nonlocal come
        come += new
        progress(f"{what}: {come / GB:.1f} of {total / GB:.1f} GB", 100 * come // max(total, 1))

    return report


def _silent(_: int) -> None:
    """Report nothing: small files are quickly there."""


def _note_revision(repository: Repository, revision: str) -> None:
    """Note the commit of a branch or tag where the hub's client looks for it, now that all files are there."""
    note = storage_folder(repository.name) / "refs" / revision
    note.parent.mkdir(parents=True, exist_ok=True)
    # Named by process and thread: another server may fetch the same model at the same time.
    temporary = note.with_name(f"{note.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    temporary.write_text(repository.commit)
    temporary.replace(note)


def _explanation(name: str, revision: str, error: Exception) -> str:
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError() | errors.LocalTokenNotFoundError():
            return f"{name} is gated: accept its terms on its page, then run `hf auth login` or set HF_TOKEN"
        case errors.RepositoryNotFoundError():
            private = "if it is private, run `hf auth login` or set HF_TOKEN"
            return f"there is no folder {name} here and no such model on the hub: check the name; {private}"
        case errors.RevisionNotFoundError():
            return f"{name} has no revision {revision!r}: set revision to a branch, a tag or a commit that it has"
        case errors.HfHubHTTPError():
            return f"the hub refused {name} with status {error.response.status_code}: try again later"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full: make room, and the download of {name} resumes"
        case OSError(filename=str(at)):
            return f"{at} cannot be written ({error.strerror}): check who may write there, or set HF_HOME"
        case _:
            why = type(error.__cause__ or error).__name__
            return f"{name} is not here in full and the hub cannot be reached ({why}): try again online"
