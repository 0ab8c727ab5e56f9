"""Where arenas and the store meet: keys and values as blocks, frames as notes on documents.

Everything here runs on the engine thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from efim_ls.access.secrets import may_reach_disk
from efim_ls.completion.frame_notes import note_of, plans_of
from efim_ls.completion.planner import Frame, Plan
from efim_ls.completion.window import Budget
from efim_ls.paths import cache_folder
from efim_ls.settings import Settings
from efim_ls.uris import document_tag
from kv_store.block import Codec, Shape
from kv_store.codec import Coder
from kv_store.names import TOKENS
from kv_store.open import Opened, Options, open_store
from kv_store.store import Computed
from model_runtime.arena.arena import Arena
from model_runtime.arena.kv_format import KvFormat
from model_runtime.errors import ModelError
from model_runtime.ids import Ids

MIB = 1 << 20
WORTH_FETCHING = TOKENS  # tokens
REMEMBERED = 256  # documents whose frames are in memory
CODECS = {"raw": Codec.RAW, "int8": Codec.INT8}

ArenaOf = Callable[[Frame], Arena | None]

logger = logging.getLogger(__name__)


class Backing:
    """Keeps what arenas hold, and the frames that it belongs to, beyond arenas, documents and processes."""

    def __init__(self, opened: Opened, budget: Budget, settings: Settings) -> None:
        """Own what was opened. Frames serve only under the budget that they were made for."""
        self._store, self._opened = opened.store, opened
        self._budget, self._settings = budget, settings
        self._frames: dict[str, list[Plan]] = {}
        self._withdrawn = set[str]()

    @classmethod
    def open(cls, kv: KvFormat, settings: Settings, model: str, budget: Budget) -> Backing:
        """Open the store that the settings ask for."""
        coder = Coder(Shape(kv.layers, kv.kv_heads, kv.head_dim), kv.rotations)
        try:
            opened = open_store(kv.fingerprint, coder, model, _options(settings), logger.warning)
        except MemoryError:
            wanted = f"the setting host_memory_mib asks for {settings.host_memory_mib} MiB"
            raise ModelError(f"{wanted}, which this system does not give: lower it") from None
        return cls(opened, budget, settings)

    def fill(self, arena: Arena, ids: Ids, stopped: Callable[[], bool]) -> int:
        """Append what is kept of `ids` to an arena in place of what it holds beyond them; returns how many tokens.

        Once `stopped()` is true it ends within one read.
        """
        held = arena.common(ids)
        if len(ids) - held < WORTH_FETCHING:
            return 0
        names, block = self._store.names(ids), held // TOKENS
        for numbers, exact in self._store.read(names, block):
            start, end = max(held, block * TOKENS), (block + 1) * TOKENS
            if arena.length != start:
                arena.truncate(start)
            arena.take_in(ids[start:end], numbers[:, :, :, start - end :], exact)
            block += 1
            if stopped():
                break
        return max(0, block * TOKENS - held)

    def filled(self, ids: Ids, computed: int) -> int:
        """How many tokens of `ids` an arena would hold once it was filled, which has `computed` of them."""
        if len(ids) - computed < WORTH_FETCHING:
            return computed
        first = computed // TOKENS
        return max(computed, (first + self._store.held(self._store.names(ids)[first:])) * TOKENS)

    def keep(self, uri: str, frames: Sequence[Frame], arena_of: ArenaOf, stopped: Callable[[], bool]) -> bool:
        """Keep a document's frames, as far as arenas hold their prompts; false if it was stopped before the end."""
        document, below = document_tag(uri), self._reaches_disk(uri)
        chains: dict[bytes, None] = {}
        for frame in reversed(frames):
            names, arena = self._store.names(frame.ids), arena_of(frame)
            chains |= dict.fromkeys(names)
            if arena and not self._store.keep(document, _computed(frame, names, arena), below, stopped):
                return False
        self._store.hold(document, list(chains))
        self._remember(uri, [frame.plan for frame in frames], below)
        if not below:
            self._withdraw(uri)
        return True

    def recall(self, uri: str) -> list[Plan]:
        """The document's frames as they were kept last, the last used at the end."""
        if uri not in self._frames and self._opened.notes and self._reaches_disk(uri):
            note = self._opened.notes.read(document_tag(uri))
            return plans_of(note, self._budget) if note else []
        return self._frames.get(uri, [])

    def visit(self, uri: str) -> None:
        """Say that the user works in a document now."""
        self._store.visit(document_tag(uri))

    def leave(self, uri: str) -> None:
        """Say that a document was closed."""
        self._store.leave(document_tag(uri))

    def describe(self) -> dict[str, object]:
        """Where keys and values are kept, and why there."""
        folder, settings = self._opened.folder, self._settings
        if folder is not None:
            reason = f"at most {settings.disk_mib} MiB for each model, {settings.disk_codec}"
        else:
            reason = next(iter(self._opened.complaints.said), "switched off by the setting persist")
        store = str(folder) if folder else "memory only"
        return {"store": store, "store_reason": reason, "store_approximate": self._opened.approximate}

    def stats(self) -> list[dict[str, object]]:
        """What each tier holds, and what has happened; may be asked for on any thread."""
        return [asdict(each) for each in self._store.stats()]

    def flush(self, seconds: float) -> bool:
        """Wait for what is to be written, at most so long; may be called on any thread."""
        return self._store.flush(seconds)

    def close(self, seconds: float, write: bool) -> None:
        """Write what is left, at most so long, or forget it; and let go of files."""
        if not write and self._store.writer is not None:
            self._store.writer.discard()
        elif self._opened.folder is not None:
            self._opened.behind(self._opened.save_away)
        self._store.close(seconds)

    def _reaches_disk(self, uri: str) -> bool:
        return self._opened.folder is not None and may_reach_disk(uri, self._settings.private_files)

    def _remember(self, uri: str, plans: list[Plan], below: bool) -> None:
        if self._frames.pop(uri, None) != plans and below and self._opened.notes:
            self._opened.behind(
                partial(self._opened.notes.write, document_tag(uri), note_of(uri, plans, self._budget))
            )
        self._frames[uri] = plans
        if len(self._frames) > REMEMBERED:
            del self._frames[next(iter(self._frames))]

    def _withdraw(self, uri: str) -> None:
        """Take from disk what may not be there: the user may have called a file private that was none before."""
        notes, document = self._opened.notes, document_tag(uri)
        if notes is not None and uri not in self._withdrawn:
            self._withdrawn.add(uri)
            self._store.forget_below(document)
            self._opened.behind(partial(notes.forget, document))


def _computed(frame: Frame, names: Sequence[bytes], arena: Arena) -> Computed:
    def numbers(block: int) -> Any:
        return arena.copied(block * TOKENS, (block + 1) * TOKENS)

    whole = arena.common(frame.ids) // TOKENS
    return Computed(names[:whole], numbers, arena.exact // TOKENS, len(frame.ids))


def _options(settings: Settings) -> Options:
    return Options(
        memory_bytes=settings.host_memory_mib * MIB,
        memory_codec=Codec.RAW,
        disk_bytes=settings.disk_mib * MIB,
        disk_codec=CODECS[settings.disk_codec],
        folder=cache_folder(settings.cache_folder) if settings.persist else None,
    )
