"""Resolves a model's name, a folder or a repository of the hub, and lists what the hub's cache holds in full."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.gguf.choice import choose_file
from model_runtime.checkpoint.gguf.found import FoundFile, found_files
from model_runtime.checkpoint.weight_files import weight_files
from model_runtime.errors import ModelError
from model_runtime.machine import install_command

# As the hub's client accepts them, but always in two parts: for others it raises different errors.
NAME_PART = r"\w(?:[\w.-]{0,94}\w)?"
REPOSITORY_NAME = re.compile(rf"(?!.*(?:--|\.\.|\.git\Z)){NAME_PART}/{NAME_PART}", re.ASCII)
REVISION_NAME = re.compile(r"(?!.*\.\.)[\w-][\w./+-]*", re.ASCII)
REQUIRED_FILES = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class CachedModel:
    """A model in the hub's cache; `refs` are the branches and tags of its commit when it was fetched."""

    name: str
    commit: str
    refs: tuple[str, ...]
    folder: Path
    size: int  # bytes


def local_folder(name: str) -> Path | None:
    """Return the folder that a setting names, or None if it names a repository of the hub; else ModelError."""
    folder = Path(os.path.expanduser(name)) if name else EMBEDDED  # Path's own raises for an unknown user
    if os.path.exists(folder):  # Path's own raises for a name that no file system accepts
        return folder
    if REPOSITORY_NAME.fullmatch(hub_name(name)[0]):
        return None
    raise ModelError(
        f"{name!r} is not a folder here, and models of the hub are named owner/name or owner/name@revision: "
        "name one or the other"
    )


class HubName(NamedTuple):
    """A repository of the hub, its revision and the quantization of its GGUF file; both are empty by default."""

    name: str
    revision: str = ""
    quantization: str = ""


def hub_name(model: str) -> HubName:
    """Return what `owner/name@revision:quantization` names."""
    repository, _, quantization = model.partition(":")
    name, _, revision = repository.partition("@")
    return HubName(name, revision, quantization)


def cached_folder(name: str, revision: str, quantization: str = "", weights: bool = True) -> Path | None:
    """Return the folder or GGUF file of a repository that is in the hub's cache, or None; makes no request.

    It must be there in full, except the `weights` if these are not needed. ModelError if the hub's client is not
    installed, without which nothing can be fetched either.
    """
    if not find_spec("huggingface_hub"):
        how = install_command("huggingface_hub")
        raise ModelError(f"{name} is a model of the hub, whose client is not installed: run {how}")
    storage, revision = storage_folder(name), checked_revision(revision)
    note = storage / "refs" / revision
    folder = storage / "snapshots" / (note.read_text("utf-8").strip() if note.is_file() else revision)
    if not quantization and (folder / REQUIRED_FILES[0]).is_file():
        return folder if _is_whole(folder, weights) else None
    with suppress(ModelError):
        file = folder / choose_file(name, _files_in(folder), quantization)
        return weight_files(file)[0]
    return None


def storage_folder(name: str) -> Path:
    """Return where the hub's client keeps a repository."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def model_folder(name: str) -> Path:
    """Return the folder of a model on this machine; ModelError if it would have to be fetched."""
    if folder := local_folder(name) or cached_folder(*hub_name(name)):
        return folder
    raise ModelError(f"{name} is not on this machine: name it in the setting model once, which fetches it")


def cached_models() -> list[CachedModel]:
    """List the models that are in the hub's cache in full."""
    if not find_spec("huggingface_hub"):
        return []
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    found = [
        CachedModel(
            repository.repo_id, each.commit_hash, tuple(sorted(each.refs)), each.snapshot_path, each.size_on_disk
        )
        for repository in repositories
        for each in repository.revisions
        if repository.repo_type == "model" and _is_whole(each.snapshot_path)
    ]
    return sorted(found, key=lambda each: (each.name.lower(), each.refs, each.commit))


def gguf_models() -> list[FoundFile]:
    """List the models in GGUF that the hub's client and other programs keep on this machine."""
    if not find_spec("huggingface_hub"):
        return found_files()
    from huggingface_hub import constants

    return found_files(Path(constants.HF_HUB_CACHE))


def hub_origin(folder: Path) -> tuple[str, str]:
    """Return name and commit of a model in the hub's cache, else the path and no commit."""
    for at in (folder, *folder.parents):
        kind, _, name = at.parent.parent.name.partition("--")
        if kind == "models" and at.parent.name == "snapshots":
            return "/".join([name.replace("--", "/"), *folder.relative_to(at).parts]), at.name
    return str(folder), ""


def checked_revision(revision: str) -> str:
    """Return the revision that a setting names, main by default; ModelError if it cannot be one."""
    if revision and not REVISION_NAME.fullmatch(revision):
        how = "write a branch, a tag or a commit behind the @ of the setting model"
        raise ModelError(f"{revision!r} is not a valid revision: {how}")
    return revision or "main"


def _files_in(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*.gguf")]


def _is_whole(folder: Path, weights: bool = True) -> bool:
    try:
        return (not weights or bool(weight_files(folder))) and all(
            (folder / name).is_file() for name in REQUIRED_FILES
        )
    except ModelError:
        return False
