"""How a model infills, in token ids: found by the markers of its tokenizer, or as a user sets it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import cast

from model_runtime.errors import ModelError
from model_runtime.prompt.families import FAMILIES, Family, FileFormat
from model_runtime.prompt.tokenizer import Tokenizer

MARKER_KEYS = ("prefix", "suffix", "middle")
TEMPLATE_KEYS = ("family", *MARKER_KEYS, "order", "bos", "end")
FAMILY_NAMES = tuple(family.name for family in FAMILIES)
PROMPT_ORDERS = {"efim": False, "psm": False, "spm": True}  # whether the tail comes first
LANGUAGE_MARKER = "<|language:{}|>"  # of the models that this project trains
_LANGUAGE = re.compile(re.escape(LANGUAGE_MARKER).replace(r"\{\}", "(.+)"))
QUANTIZATION = re.compile(r"([-.](i?q\d\w*|b?f16|f32|gguf))+$")  # `-Q4_K_M.gguf`
NO_TEMPLATE_REMEDY = "use a code model trained to infill, or name its markers in the setting template"


@dataclass(frozen=True)
class FileMarkers:
    """Ids of the markers of a family's format for other files."""

    format: FileFormat
    separator: tuple[int, ...]
    repository: tuple[int, ...] = ()


@dataclass(frozen=True)
class Template:
    """Marker ids of the prompt `bos prefix head suffix tail middle typed`, or with `suffix tail` before `prefix`.

    A marker is one token or, if it is plain text to the tokenizer, several; a family may have no middle. `lead` is
    text before the head. `ends` end a text, as do the tokenizer's special tokens and the tokens that the config
    names. `files` are the markers of other files; without them, their paths are comments. `languages` are markers of
    programming languages, by LSP's names.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    middle: tuple[int, ...]
    bos: tuple[int, ...] = ()
    tail_first: bool = False
    lead: str = ""
    ends: frozenset[int] = frozenset()
    family: str = ""
    fragments: bool = False
    files: FileMarkers | None = None
    languages: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    def of(self, names: Sequence[str]) -> Template:
        """Return the template of a language: the marker of the first of its `names` that has one ends the prefix."""
        marker = next((self.languages[each] for each in names if each in self.languages), None)
        return self if marker is None else replace(self, prefix=(*self.prefix, marker), languages={})

    @property
    def shows_similar(self) -> bool:
        """Whether there is a place behind the tail where text may change without changing head and tail."""
        return bool(self.middle) and not self.tail_first

    @property
    def marker_ids(self) -> tuple[int, ...]:
        """Tokens of a prompt without any text."""
        first, second = (self.suffix, self.prefix) if self.tail_first else (self.prefix, self.suffix)
        return (*self.bos, *first, *second, *self.middle)

    @property
    def markers(self) -> int:
        """Most tokens of a prompt that do not come from the document."""
        return len(self.marker_ids) + bool(self.languages) + len(self.lead)


def find_template(
    tokenizer: Tokenizer,
    override: Mapping[str, object] | None = None,
    end_ids: Collection[int] = (),
    own: Mapping[str, str] | None = None,
) -> Template:
    """Return the template of the family whose markers the tokenizer has, with the user's overrides.

    `end_ids` come from the config. A model of no family has its `own` markers, by the keys of the setting. ModelError
    if there are none, or no token for a name.
    """
    wanted = override or {}
    if unknown := [key for key in wanted if key not in TEMPLATE_KEYS]:
        raise ModelError(f"the setting template has {unknown[0]!r}: use one of {', '.join(TEMPLATE_KEYS)}")
    fitting = (each for each in FAMILIES if _fits(each, tokenizer, end_ids))
    family = _chosen(wanted) or next(fitting, None) or _own(own or {})
    markers = {key: name for key in MARKER_KEYS if (name := _text(wanted, key)) is not None}
    family = replace(family, **markers, tail_first=_tail_first(wanted, family))
    if not (family.prefix and family.suffix):
        raise ModelError(f"the tokenizer has no fill-in-the-middle tokens: {NO_TEMPLATE_REMEDY}")
    prefix, suffix, middle = (_ids(tokenizer, family, name) for name in (family.prefix, family.suffix, family.middle))
    bos = _text(wanted, "bos")
    return Template(
        prefix,
        suffix,
        middle,
        bos=tokenizer.bos if bos is None else _ids(tokenizer, family, bos),
        tail_first=family.tail_first,
        lead="" if tokenizer.is_byte_level else family.lead,  # SentencePiece alone puts one in front
        ends=_ends(tokenizer, family, wanted),
        family=family.name,
        fragments=family.fragments,
        files=_file_markers(tokenizer, family),
        languages={found[1]: i for name, i in tokenizer.special.items() if (found := _LANGUAGE.fullmatch(name))},
    )


def _file_markers(tokenizer: Tokenizer, family: Family) -> FileMarkers | None:
    """Return the ids of a family's markers of other files, None if it or the tokenizer has none."""
    if (form := family.files) is None or (separator := tokenizer.special.get(form.separator)) is None:
        return None
    repository = tokenizer.special.get(form.repository) if form.repository else None
    return FileMarkers(form, (separator,), () if repository is None else (repository,))


def _text(wanted: Mapping[str, object], key: str) -> str | None:
    value = wanted.get(key)
    if value is not None and not isinstance(value, str):
        raise ModelError(f"the setting template: {key} is {value!r}, not a text: name a token")
    return value


def _chosen(wanted: Mapping[str, object]) -> Family | None:
    if (name := _text(wanted, "family")) is None:
        return None
    if (family := next((each for each in FAMILIES if each.name == name), None)) is None:
        raise ModelError(f"the setting template: no family {name!r}: use one of {', '.join(FAMILY_NAMES)}")
    return family


def _own(markers: Mapping[str, str]) -> Family:
    return Family("own", markers.get("prefix", ""), markers.get("suffix", ""), markers.get("middle", ""))


def _tail_first(wanted: Mapping[str, object], family: Family) -> bool:
    if (order := _text(wanted, "order")) is None:
        return family.tail_first
    if order not in PROMPT_ORDERS:
        raise ModelError(f"the setting template: no order {order!r}: use {' or '.join(PROMPT_ORDERS)}")
    return PROMPT_ORDERS[order]


def _fits(family: Family, tokenizer: Tokenizer, end_ids: Collection[int]) -> bool:
    """Return whether the tokenizer is of the family, by markers; by end token or path if others share them.

    Folders and files in GGUF may name a quantization behind the model's name.
    """
    has = all(name in tokenizer.special for name in (*family.markers, *family.ends))
    if not family.folders:
        return has
    ends = family.end_id is not None and (family.end_id in end_ids or family.end_id in tokenizer.special.values())
    parts = tokenizer.folder.absolute().parts  # the hub's cache names one of them models--owner--name
    folders = {QUANTIZATION.sub("", part.lower().rpartition("--")[2]) for part in parts}
    return (has or family.spelled) and (ends or not folders.isdisjoint(family.folders))


def _ends(tokenizer: Tokenizer, family: Family, wanted: Mapping[str, object]) -> frozenset[int]:
    """Return the family's end tokens, those that a user names, and the markers that are tokens."""
    named = wanted.get("end") or ()
    names = [named] if isinstance(named, str) else cast(Sequence[object], named)
    if not isinstance(named, str | Sequence) or not all(isinstance(name, str) and name for name in names):
        raise ModelError(f"the setting template: end is {named!r}, not a list of texts: name tokens")
    asked = (_ids(tokenizer, family, cast(str, name)) for name in names)
    own = (tokenizer.token(name) for name in (*family.markers, *family.ends))
    return frozenset(i for i in (*own, family.end_id, *chain.from_iterable(asked)) if i is not None)


def _ids(tokenizer: Tokenizer, family: Family, name: str) -> tuple[int, ...]:
    """Return the token of a marker's name, or those that spell it; none for an empty name."""
    if not name:
        return ()
    if (token := tokenizer.token(name)) is not None:
        return (token,)
    if not family.spelled:
        raise ModelError(f"the tokenizer has no token {name!r}: name one of its tokens in the setting template")
    return tuple(tokenizer.encode(name).tolist())
