"""Excerpts of other files to token ids, as the model's family was trained to read several files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import numpy as np

from model_runtime.ids import Ids
from model_runtime.prompt.context import ContextPiece, PromptContext
from model_runtime.prompt.prompt import NO_IDS, NOTHING_LAID_OUT, LaidOut, PromptPart, count_tokens
from model_runtime.prompt.template import FileMarkers, Template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.sequence_key import Mask
from model_runtime.shelves.excerpts.excerpts import Excerpt, Excerpts

# Endings of files whose comments begin with a number sign; comments of other files begin with two slashes.
NUMBER_SIGN = frozenset({".py", ".pyi", ".rb", ".sh", ".toml", ".yaml", ".yml", ".r", ".jl", ".pl", ".ex", ".exs"})
REMEMBERED = 64  # sets of excerpts whose ids are kept: some frames of some documents


class PlainLayout:
    """Lays excerpts out as ordinary tokens of the prompt, for models as they are published.

    More than `most` tokens are never laid out: the parts that change most are left out first, each whole.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, most: int) -> None:
        """Write files in the format of the template."""
        self._tokenizer, self._template, self._most = tokenizer, template, most
        self.lay_out = lru_cache(REMEMBERED)(self._lay_out)

    def _lay_out(self, excerpts: Excerpts) -> LaidOut:
        """Return the ids of excerpts; a pure function of them."""
        stable = excerpts._replace(similar=())
        for shown in (excerpts, stable, stable._replace(imports=())):
            files = self._template.files
            laid = self._with_markers(shown, files) if files else self._as_comments(shown)
            if count_tokens(laid.parts) <= self._most:
                return laid
        return NOTHING_LAID_OUT

    def _with_markers(self, excerpts: Excerpts, files: FileMarkers) -> LaidOut:
        form, separator = files.format, np.array(files.separator, dtype=np.int32)
        similar = self._similar(excerpts)
        if not (excerpts.signatures or excerpts.imports):
            return LaidOut(behind=similar)
        name = self._tokenizer.encode_file(excerpts.repository + form.end) if files.repository else NO_IDS
        repository = np.concatenate((np.array(files.repository, dtype=np.int32), name))
        signatures, imports = (self._joined(part) for part in (excerpts.signatures, excerpts.imports))
        if not form.leads:
            without = len(separator)
            signatures, imports = (
                (signatures[without:], imports) if len(signatures) else (signatures, imports[without:])
            )
        signatures = np.concatenate((repository, signatures))
        path = NO_IDS if form.own_path == "nowhere" else self._tokenizer.encode_file(f"{excerpts.path}\n")
        path_inside = form.own_path == "behind prefix"
        if path_inside:
            imports = np.concatenate((imports, separator))
        else:
            path = np.concatenate((separator, path))
        front = PromptPart("signatures", signatures), PromptPart("imports", imports)
        own = (PromptPart("marker", path),)
        return LaidOut(front, own, similar) if path_inside else LaidOut(front + own, (), similar)

    def _as_comments(self, excerpts: Excerpts) -> LaidOut:
        signatures, imports = (self._joined(part) for part in (excerpts.signatures, excerpts.imports))
        inside = PromptPart("signatures", signatures), PromptPart("imports", imports)
        return LaidOut(inside=inside, behind=self._similar(excerpts))

    def _similar(self, excerpts: Excerpts) -> tuple[PromptPart, ...]:
        return (PromptPart("similar", self._joined(excerpts.similar)),) if self._template.shows_similar else ()

    def _joined(self, excerpts: Sequence[Excerpt]) -> Ids:
        return np.concatenate((NO_IDS, *(excerpt_ids(self._tokenizer, self._template, each) for each in excerpts)))


class ApartLayout:
    """Lays excerpts out in separate rows before the window, for models that were trained with a mask.

    Each excerpt stands apart from all others. More than `most` tokens are never laid out: those that change most are
    left out first, each whole.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, mask: Mask, most: int) -> None:
        """Write files in the format of the template."""
        self._tokenizer, self._template, self._most = tokenizer, template, most
        self._mask: Mask = mask
        self.lay_out = lru_cache(REMEMBERED)(self._lay_out)

    def _lay_out(self, excerpts: Excerpts) -> LaidOut:
        """Return the ids of excerpts; a pure function of them."""
        shown, left = list[PromptPart](), self._most
        for excerpt in excerpts.all:
            ids = excerpt_ids(self._tokenizer, self._template, excerpt)
            if len(ids) <= left:
                shown.append(PromptPart(excerpt.place, ids, sees_excerpts=False, origin=Path(excerpt.file).as_uri()))
                left -= len(ids)
        return LaidOut(apart=tuple(shown), mask=self._mask)


def layout(
    tokenizer: Tokenizer, template: Template, mask: Mask | Literal[""], most: int
) -> Callable[[PromptContext], LaidOut]:
    """Return how a model reads excerpts, of `most` tokens in all: apart if it was trained with a mask."""
    if not most:
        return lambda context: NOTHING_LAID_OUT
    apart = ApartLayout(tokenizer, template, mask, most) if mask else None
    made = apart or PlainLayout(tokenizer, template, most)

    def lay_out(context: PromptContext) -> LaidOut:
        assert isinstance(context, Excerpts)
        return made.lay_out(context)

    return lay_out


class PlacedExcerpt(NamedTuple):
    """An excerpt in a prompt, how many tokens it has, and the place after its last one."""

    piece: ContextPiece
    tokens: int
    end: int


def placed(
    tokenizer: Tokenizer, template: Template, parts: Sequence[PromptPart], context: PromptContext
) -> Iterator[PlacedExcerpt]:
    """Yield the excerpts that a prompt of these parts shows, in its order."""
    start = 0
    for name, group in groupby(parts, key=lambda part: part.name):
        size = count_tokens(group)
        shown = [each for each in context.all if each.place == name] if size else []
        sizes = [len(excerpt_ids(tokenizer, template, each)) for each in shown]
        at = start + (max(0, size - sum(sizes)) if name == "signatures" else 0)  # the repository's name stands first
        for each, tokens in zip(shown, sizes, strict=True):
            at = min(at + tokens, start + size)
            yield PlacedExcerpt(each, tokens, at)
        start += size


def excerpt_ids(tokenizer: Tokenizer, template: Template, excerpt: ContextPiece) -> Ids:
    """Return the ids of one excerpt: its marker, path and text or, without a marker, the path as a comment."""
    path, text, encode = excerpt.path, excerpt.text, tokenizer.encode_file
    if template.files is None:
        sign = "#" if PurePosixPath(path).suffix.lower() in NUMBER_SIGN else "//"
        return encode(f"\n{sign} {path}\n{text}")
    return np.concatenate((np.array(template.files.separator, dtype=np.int32), encode(f"{path}\n"), encode(text)))
