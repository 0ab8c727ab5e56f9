"""What a user can set: parsed once, at the edge, into a frozen value and a list of problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args, get_type_hints

SECTIONS = ("efim-ls", "efim_ls")
TEXTS = tuple[str, ...]
TABLE = tuple[tuple[str, str | TEXTS], ...]  # of names and what they mean, as an object tells them
CodecName = Literal["raw", "int8"]
MAY_BE_0 = ("ahead_seconds_per_minute",)
# 64 GiB of disk: a file's table takes a 750th of it at once. Of thousands of threads the process dies.
MOST = {"disk_mib": 1 << 16, "alternatives": 8, "threads": 64}
MOST_OF_ANY = 1 << 30
REMOVED = {
    name: f"the setting {name!r} was removed and is ignored: delete it" for name in ("niceness", "memory_codec")
}
# Prose, logs and messages to a version control system, as VS Code, Neovim, Helix and Emacs name them.
PROSE = (
    "plaintext", "text", "markdown", "restructuredtext", "rst", "asciidoc", "org", "mail", "help", "log",
    "scminput", "git-commit", "gitcommit", "git-rebase", "gitrebase", "hgcommit", "jjdescription",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Invariant: every field holds what its type allows, and every number is positive, or 0 where that says "off".

    `model` is a checkpoint folder, or a repository of the hub at `revision` (empty: its main branch); empty for the
    embedded one. `template` overrides the infilling markers that are found in the tokenizer. `menu` says who is
    offered completions in the completion menu: "auto" are clients without inline completion; it is read once, when a
    client connects. `ahead_seconds_per_minute` bounds what the engine works ahead of need (0 switches that off).
    `persist` lets keys and values reach the disk, in `cache_folder` (empty: the system's for caches), at most
    `disk_mib` for each model; those of files that match `private_files`, or look like secrets, never do. Suggestions
    that the model gives a probability below `min_confidence` are not shown while typing.
    """

    model: str = ""
    revision: str = ""
    template: TABLE = ()
    enabled: bool = True
    max_new_tokens: int = 64
    max_lines: int = 12
    alternatives: int = 3
    min_confidence: float = 0.05
    head_tokens: int = 1536
    tail_tokens: int = 384
    threads: int = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    weights: Literal["auto", "fp32", "fp16", "int8"] = "auto"
    menu: Literal["auto", "always", "never"] = "auto"
    local_cache: bool = True
    max_file_kib: int = 4096
    disabled_languages: TEXTS = PROSE
    disabled_files: TEXTS = ()
    disabled_workspaces: TEXTS = ()
    kv_memory_mib: int = 512
    ahead_seconds_per_minute: int = 6
    host_memory_mib: int = 256
    persist: bool = True
    cache_folder: str = ""
    disk_mib: int = 2048
    disk_codec: CodecName = "raw"
    private_files: TEXTS = ()

    @property
    def of_model(self) -> Settings:
        """The same as far as a loaded model depends on it: two that are equal here need no reload."""
        of_server = {name: getattr(DEFAULTS, name) for name in OF_SERVER}
        return replace(self, **of_server)


DEFAULTS = Settings()
# What is read at each request, or where a client connects: a change takes effect without another model.
OF_SERVER = (
    "enabled", "menu", "alternatives", "min_confidence", "max_file_kib", "ahead_seconds_per_minute",
    "disabled_languages", "disabled_files", "disabled_workspaces",
)  # fmt: skip


def parse(*layers: object) -> tuple[Settings, list[str]]:
    """Return the settings and one problem for each that is unknown, wrong or removed, whose default is kept.

    A layer is what a client sends: an object of settings, bare or under our name, or null. Later ones win.
    """
    known: dict[str, Any] = get_type_hints(Settings)
    good: dict[str, Any] = {}
    problems: list[str] = []
    for layer in layers:
        for name, value in _section(layer, problems).items():
            if name in REMOVED:
                if REMOVED[name] not in problems:
                    problems.append(REMOVED[name])
            elif name not in known:
                problems.append(f"unknown setting {name!r}: expected one of {', '.join(known)}")
            elif not _fits(value, known[name], range(int(name not in MAY_BE_0), MOST.get(name, MOST_OF_ANY) + 1)):
                problems.append(f"setting {name!r}: expected {_expected(known[name], name)}, got {value!r}")
            else:
                good[name] = _frozen(value, known[name])
    return replace(DEFAULTS, **good), problems


def _frozen(value: Any, kind: Any) -> Any:
    if kind == TABLE:
        return tuple((name, _frozen(each, None if isinstance(each, str) else TEXTS)) for name, each in value.items())
    return tuple(value) if kind == TEXTS else value


def _section(layer: object, problems: list[str]) -> Mapping[str, object]:
    ours = layer
    if isinstance(layer, Mapping):
        whole = cast("Mapping[str, object]", layer)
        ours = next((whole[name] for name in SECTIONS if name in whole), whole)
    if isinstance(ours, Mapping):
        return cast("Mapping[str, object]", ours)
    if ours is not None:
        problems.append(f"settings: expected an object, got {ours!r}")
    return {}


def _fits(value: object, kind: Any, allowed: range) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(_fits(each, str, allowed) for each in cast("list[object]", value))
    if kind == TABLE:
        return isinstance(value, Mapping) and all(
            _fits(each, str, allowed) or _fits(each, TEXTS, allowed)
            for each in cast("Mapping[str, object]", value).values()
        )
    if choices := get_args(kind):
        return value in choices
    if kind is str:
        return isinstance(value, str) and "\0" not in value
    if kind is float:
        return type(value) in (int, float) and 0 <= cast("float", value) <= 1
    return type(value) is kind and (kind is not int or value in allowed)


def _expected(kind: Any, name: str) -> str:
    if kind == TEXTS:
        return "a list of texts"
    if kind == TABLE:
        return "an object of texts and lists of texts"
    if choices := get_args(kind):
        return " or ".join(repr(choice) for choice in choices)
    number = "a whole number, 0 or more" if name in MAY_BE_0 else "a positive whole number"
    number += f" up to {MOST[name]}" if name in MOST else ""
    return {str: "a text", bool: "true or false", float: "a number from 0 to 1", int: number}[kind]
