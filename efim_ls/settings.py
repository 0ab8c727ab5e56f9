"""What a user can set: parsed once, at the edge, into a frozen value and a list of problems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from efim_ls.languages.table import PROSE
from efim_ls.memory_shares import LEAST_MEMORY
from efim_ls.setting_objects import OBJECTS, SharedTierOptions
from model_runtime.remote.setting import RemoteOptions, object_problem

SECTIONS = ("efim-ls", "efim_ls")
TEXTS = tuple[str, ...]
Approximation = Literal["int8_on_disk", "moved_text", "moved_text_carefully"]
Suggestions = Literal["more", "balanced", "sure", "on request"] | float
Threads = Literal["auto"] | int
TABLE = tuple[tuple[str, str | TEXTS], ...]  # of names and their meanings, as a JSON object holds them
NO_LIMIT = 1 << 30  # the highest number of settings without a limit
ALTERNATIVES = 3  # suggestions to choose from that a key brings at most
MOST_CHARACTERS = 4096 * 1024  # of a file that gets suggestions
MOST_DISK_MIB = 1 << 16  # 64 GiB: the table of the cache file takes a 750th of its size at once
MOST_THREADS = 64  # with thousands of threads the process dies

T = TypeVar("T")


@dataclass(frozen=True)
class Description:
    """What users read about a setting, and the bounds of a number; `choices` says what each allowed value means."""

    text: str
    group: str
    basic: bool
    least: int
    most: int
    choices: Mapping[str, str]


def setting(
    default: T,
    text: str,
    group: str,
    *,
    basic: bool = False,
    least: int = 1,
    most: int = NO_LIMIT,
    choices: Mapping[str, str] | None = None,
) -> T:
    """Return a dataclass field with this default that carries its description."""
    return field(
        default=default, metadata={"description": Description(text, group, basic, least, most, choices or {})}
    )


@dataclass(frozen=True)
class Settings:
    """Valid settings: every field has its type and lies within the bounds of its description."""

    model: str = setting(
        "",
        "The model: a folder that holds a checkpoint, a GGUF file, or a repository on the Hugging Face hub "
        "(`Qwen/Qwen2.5-Coder-1.5B`), which is downloaded once; `@main` behind the name, or another branch, tag or "
        "commit, asks for that one, and `:Q8_0` for that GGUF file. If empty, the small models that come with the "
        "server, each for its languages; they also answer before a larger model (docs/models.md). `efim-ls models` "
        "lists what fits your machine.",
        "Model",
        basic=True,
    )
    enabled: bool = setting(True, "Show suggestions.", "Suggestions", basic=True)
    max_lines: int = setting(12, "The most lines a suggestion can have.", "Suggestions", basic=True)
    suggestions: Suggestions = setting(
        "balanced",
        "How confident the model must be to show a suggestion while you type. The named levels adapt to context. A "
        "number from 0 to 1 is a fixed threshold; 0 shows everything. Suggestions you request by key are always "
        "shown.",
        "Suggestions",
        basic=True,
        least=0,
        most=1,
        choices={
            "more": "Also shows less likely suggestions.",
            "balanced": "Shows suggestions that are likely enough to be useful.",
            "sure": "Shows only suggestions that are very likely right.",
            "on request": "Shows nothing while you type, and does not ask the model: request suggestions by key.",
        },
    )
    next_edit: bool = setting(
        True, "Offer the next edit: what you changed, where it fits next, or an import.", "Suggestions", basic=True
    )
    disabled_languages: TEXTS = setting(
        PROSE,
        "Languages without suggestions, by the "
        "[identifiers](https://code.visualstudio.com/docs/languages/identifiers) that editors use (`markdown`). Your "
        "list replaces the default one, which names prose, logs and commit messages.",
        "Files",
        basic=True,
    )
    disabled_files: TEXTS = setting(
        (),
        "Patterns of files (`*.sql`) and folders (`~/client`) without suggestions. Files that look like secrets "
        "never get any.",
        "Files",
        basic=True,
    )
    persist: bool = setting(
        True,
        "Keep the keys and values of your files on disk, readable by you alone, so that the first suggestion after a "
        "restart is fast. If off, no statistics are written either.",
        "Privacy",
        basic=True,
    )
    threads: Threads = setting(
        "auto",
        "CPU threads that a model uses.",
        "Model",
        basic=True,
        most=MOST_THREADS,
        choices={"auto": "One for small models; for larger ones half of the physical cores, eight at most."},
    )
    show_after_ms: int = setting(
        0,
        "Milliseconds without a key before a new suggestion appears. A suggestion that you type through stays.",
        "Suggestions",
        basic=True,
        least=0,
        most=60_000,
    )
    menu: Literal["auto", "always", "never"] = setting(
        "auto",
        "Whether the completion menu offers suggestions too. Read once, when the editor connects.",
        "Suggestions",
        choices={
            "auto": "Only in editors that cannot show ghost text.",
            "always": "In every editor, next to any ghost text.",
            "never": "In no editor.",
        },
    )
    other_files: Literal["auto", "text", "phrases", "off"] = setting(
        "auto",
        "What suggestions take from the workspace's other files: phrases that occur in them, and text that the model "
        "reads, which is the most-used signatures, signatures of imported names and, where the model is unsure, the "
        "most similar code and your last edits. The files are read on this machine, except files that git ignores or "
        "the settings exclude; `efim-ls index --status` shows the index.",
        "Suggestions",
        choices={
            "auto": "Phrases; also text if the model was trained on repositories and has a billion parameters or "
            "more.",
            "text": "Phrases and text, with any model. Small models gain nothing by it, and may complete other lines "
            "worse. Models that read the text after the cursor first (Codestral, Seed-Coder, Mellum) get signatures "
            "alone.",
            "phrases": "Phrases alone. No text is prepared, and no names of your code are stored on disk for it.",
            "off": "Neither: files that are not open are not read.",
        },
    )
    engine: RemoteOptions = setting(
        RemoteOptions(),
        'A server with a larger model: `{"url": "http://host:8000"}`. The embedded model answers at once, and the '
        "server's answer replaces it if it comes in time and is surer. `model` names the server's model. "
        "docs/remote.md lists the other fields, and the data that is sent. Without `url`, "
        '`{"alone": true}` lets a larger model that `model` names answer alone, without the embedded one.',
        "Model",
    )
    model_languages: TEXTS = setting(
        (),
        'The languages that the model knows, by the same identifiers as in `disabled_languages`; `["*"]` means all. '
        "In other languages suggestions come from the file's own phrases. If empty, the languages that the model's "
        "`config.json` names, or all.",
        "Model",
    )
    template: TABLE = setting(
        (),
        "The infilling markers of the model, if its tokenizer does not reveal them: "
        '`{"prefix": "<PRE>", "suffix": "<SUF>", "middle": "<MID>"}`.',
        "Model",
    )
    head_tokens: int = setting(
        1536,
        "How much text before the cursor the model reads, in tokens, if its context has room for it. Of the text "
        "after the cursor it reads a quarter as much.",
        "Model",
    )
    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "Where the model runs.",
        "Model",
        basic=True,
        choices={"auto": "The GPU if one can be used, else the CPU.", "cpu": "The CPU.", "cuda": "An NVIDIA GPU."},
    )
    weights: Literal["auto", "fp32", "fp16", "int8", "int4"] = setting(
        "auto",
        "The number format of the model's weights on a CPU. A GPU uses bf16, or `int8` if you ask for it.",
        "Model",
        choices={
            "auto": "The fastest format that this machine can use, by a fixed rule: the same at every start.",
            "fp32": "32 bits for each number.",
            "fp16": "16 bits for each number.",
            "int8": "8 bits for each number: an approximation.",
            "int4": "4 bits for each number, in groups of 32 with a scale: the fastest for large models on a CPU, "
            "and a coarse approximation, which `auto` takes from 300 million parameters on. A GPU uses int8 instead.",
        },
    )
    approximations: tuple[Approximation, ...] = setting(
        (),
        "Approximations that save space or time. If empty, results are exact, except for the format of `weights`.",
        "Model",
        choices={
            "int8_on_disk": "Keys and values take a third of the space on disk, in a separate cache.",
            "moved_text": "Keys and values of text that a formatter, another branch or a jump of the cursor moved "
            "are reused, except for its first 16 tokens, until the server is idle; on a CPU.",
            "moved_text_carefully": "The same, except for its first 32 tokens. It wins over `moved_text`.",
        },
    )
    prefetch_seconds_per_minute: int = setting(
        6,
        "How many seconds of each minute the model may spend on preparing suggestions before you type. 0 turns this "
        "off.",
        "Model",
        least=0,
    )
    memory_mib: int = setting(
        224,
        "Memory, in MiB, in addition to the model: for the places where you work, and for the phrases of the "
        "workspace's files. A larger model makes good use of more than the default.",
        "Memory and disk",
        basic=True,
        least=LEAST_MEMORY,
    )
    private_files: TEXTS = setting(
        (),
        "Patterns of files (`*.sql`) and folders (`~/client`) about which nothing is written to disk. Files that "
        "look like secrets are always left out.",
        "Privacy",
        basic=True,
    )
    cache_folder: str = setting(
        "",
        "The folder of the cache. If empty, the system's folder for caches (`~/.cache/efim-ls` on Linux).",
        "Memory and disk",
    )
    disk_mib: int = setting(
        2048,
        "Disk space, in MiB, for each model's cache; `int8_on_disk` has a separate cache. A new value starts with an "
        "empty cache.",
        "Memory and disk",
        most=MOST_DISK_MIB,
    )
    shared_tier: SharedTierOptions = setting(
        SharedTierOptions(),
        'A cache of keys and values that a team shares: `{"url": "valkeys://host:6379", "key_file": "~/team-key"}`. '
        "Keys and values that colleagues have computed are fetched instead of computed again. docs/team.md lists the "
        "other fields.",
        "Memory and disk",
    )
    shared: bool = setting(
        True,
        "Share one server process, and one model in memory, between all editors and windows; it stays for ten "
        "minutes after the last of them. If off, this editor starts its own server. Read once, when the editor "
        "connects; on Linux and macOS.",
        "Memory and disk",
    )

    @property
    def tail_tokens(self) -> int:
        """How many tokens after the cursor the model reads, if its context has room for them."""
        return max(1, self.head_tokens // 4)

    @property
    def max_new_tokens(self) -> int:
        """The most tokens of a suggestion."""
        return max(64, 5 * self.max_lines)

    @property
    def of_model(self) -> Settings:
        """The settings that a loaded model depends on: if two are equal here, no reload is needed."""
        of_server = {name: getattr(DEFAULTS, name) for name in OF_SERVER}
        reads_text = self.other_files == "text" or (self.other_files == "auto" and self.model != "")
        return replace(self, **of_server, other_files=self.other_files if reads_text else "phrases")


DEFAULTS = Settings()
TYPES: Mapping[str, Any] = get_type_hints(Settings)
DESCRIPTIONS: Mapping[str, Description] = {each.name: each.metadata["description"] for each in fields(Settings)}
# Read at each request, or when a client connects: a change takes effect without loading a model.
OF_SERVER = (
    "enabled", "menu", "show_after_ms", "suggestions", "next_edit", "prefetch_seconds_per_minute",
    "disabled_languages", "disabled_files", "shared",
)  # fmt: skip


def parse(*layers: object) -> tuple[Settings, list[str]]:
    """Return the settings, and one message for each that is unknown or invalid; those keep their defaults.

    A layer is what a client sends: an object of settings, bare or under our section's name, or null. Later ones win.
    """
    valid = dict[str, Any]()
    problems: list[str] = []
    for layer in layers:
        for name, value in _section(layer, problems).items():
            if (problem := _problem(name, value)) is None:
                valid[name] = _frozen(value, TYPES[name])
            elif problem not in problems:
                problems.append(problem)
    return replace(DEFAULTS, **valid), problems


def _problem(name: str, value: object) -> str | None:
    if name not in TYPES:
        return f"unknown setting {name!r}: expected one of {', '.join(TYPES)}"
    kind, bounds = TYPES[name], DESCRIPTIONS[name]
    if kind in OBJECTS:
        is_null = value is None and OBJECTS[kind].may_be_null
        return None if is_null else object_problem(name, OBJECTS[kind].fields, value, OBJECTS[kind].without_url)
    if not _fits(value, kind, bounds):
        return f"setting {name!r}: expected {_expected(kind, bounds)}, got {value!r}"
    if name == "cache_folder" and value and not _is_absolute(str(value)):
        # The server's working folder is the user's project in most editors.
        return f"setting {name!r}: {value!r} cannot be used: write an absolute path, or a path that begins with ~/"
    return None


def _is_absolute(path: str) -> bool:
    """Return whether a path can be one on this system and means the same folder whatever the working folder is."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    at_home = path.startswith(("~/", f"~{os.sep}")) or path == "~"  # ~name/x is relative without such a user
    return os.path.isabs(os.path.expanduser(path) if at_home else path)


def _frozen(value: Any, kind: Any) -> Any:
    if kind in OBJECTS:
        return kind(**(value or {}))
    if kind == TABLE:
        return tuple((name, _frozen(each, None if isinstance(each, str) else TEXTS)) for name, each in value.items())
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


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


def words_of(kind: Any) -> tuple[str, ...]:
    """Return the words that a list of fixed words may hold; none for any other kind."""
    return get_args(get_args(kind)[0]) if get_origin(kind) is tuple and kind not in (TEXTS, TABLE) else ()


def _fits(value: object, kind: Any, bounds: Description) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(_fits(each, str, bounds) for each in cast("list[object]", value))
    if kind == TABLE:
        return isinstance(value, Mapping) and all(
            _fits(each, str, bounds) or _fits(each, TEXTS, bounds)
            for each in cast("Mapping[str, object]", value).values()
        )
    if get_origin(kind) is Union:
        return any(_fits(value, each, bounds) for each in get_args(kind))
    if choices := words_of(kind):
        return isinstance(value, list) and all(each in choices for each in cast("list[object]", value))
    if choices := get_args(kind):
        return value in choices
    if kind is str:
        return isinstance(value, str) and "\0" not in value
    if kind is bool:
        return type(value) is bool
    allowed = (int, float) if kind is float else (int,)  # not bool, which is an int to isinstance
    return type(value) in allowed and bounds.least <= cast("float", value) <= bounds.most


def _expected(kind: Any, bounds: Description) -> str:
    if kind == TEXTS:
        return "a list of texts"
    if kind == TABLE:
        return "an object of texts and lists of texts"
    if get_origin(kind) is Union:
        return " or ".join(_expected(each, bounds) for each in get_args(kind))
    if choices := words_of(kind):
        return f"a list of {', '.join(map(repr, choices))}"
    if choices := get_args(kind):
        return " or ".join(repr(choice) for choice in choices)
    number = "a positive whole number" if bounds.least == 1 else f"a whole number, {bounds.least} or more"
    number += f" up to {bounds.most}" if bounds.most != NO_LIMIT else ""
    unit = f"a number from {bounds.least} to {bounds.most}"
    return {str: "a text", bool: "true or false", float: unit, int: number}[kind]
