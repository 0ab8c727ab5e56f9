"""Keys and values of excerpts: each computed alone, from position 0 on, and rotated once to its place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from model_runtime.cancel import Cancel
from model_runtime.engine.prefill import Readied
from model_runtime.ids import Ids, common_prefix
from model_runtime.kv.arena import Arena
from model_runtime.kv.layout import Numbers, Plane, turned
from model_runtime.kv.sequence import Quality
from model_runtime.kv.storage import ComputedExcerpt, ExcerptStore
from model_runtime.sequence_key import SequenceKey, TextsApart, ids_of


class ExcerptLibrary:
    """Excerpts by their token ids, the least recently used first. Used on the engine thread only."""

    def __init__(self, scratch: Arena, rotations: Sequence[npt.NDArray[np.complex64]], most_tokens: int) -> None:
        """Compute in `scratch`, an arena without excerpt rows; keep `most_tokens`, and always the last excerpts.

        `rotations` [positions, head_dim / 2] are the rotations of keys in arenas, by number of a plane's `rope`.
        """
        self._scratch, self._rotations, self._most = scratch, rotations, most_tokens
        self._kept: OrderedDict[bytes, ComputedExcerpt] = OrderedDict()

    def ready(
        self,
        excerpts: TextsApart,
        source: ExcerptStore | None,
        compute: Callable[[Ids, Arena], None],
        chunk: int,
        cancel: Cancel,
    ) -> Readied:
        """Have all excerpts in RAM: fetch those in the source and `compute` the rest, `chunk` tokens at once.

        Ends between two excerpts once `cancel()` is true; the next call uses the rows computed so far.
        """
        computed = fetched = 0
        for text in excerpts.texts:
            if text not in self._kept:
                ids, scratch = ids_of(text), self._scratch
                scratch.truncate(scratch.common(SequenceKey(ids)))
                if source is not None:
                    fetched += source.fill_excerpt(scratch, ids, cancel)
                while (start := scratch.length) < len(ids):
                    if cancel():
                        return Readied(False, computed, fetched)
                    compute(ids[start : start + chunk], scratch)
                    computed += scratch.length - start
                self._kept[text] = ComputedExcerpt(scratch.copy_out(0, len(ids)), scratch.rows.worst(len(ids)))
            self._kept.move_to_end(text)
        self._evict(len(set(excerpts.texts)))
        return Readied(True, computed, fetched)

    def get(self, text: bytes) -> ComputedExcerpt | None:
        """Return an excerpt that is in RAM, else None; changes nothing."""
        return self._kept.get(text)

    def known(self, excerpts: TextsApart, source: ExcerptStore | None) -> tuple[int, int]:
        """Count the tokens of excerpts that are in RAM, and those that the source has; changes nothing."""
        kept = stored = 0
        ready, last = set(self._kept), self._scratch.ids
        for text in excerpts.texts:
            ids = ids_of(text)
            held = len(ids) if text in ready else self._scratch.resumes_at(common_prefix(last, ids))
            kept += held
            if text not in ready:
                stored += max(0, source.filled_excerpt(ids) - held) if source else 0
                ready.add(text)
                last = ids
        return kept, stored

    def place(self, arena: Arena) -> None:
        """Write an arena's excerpts, which are ready, into its excerpt rows, rotated to their places."""
        row, worst = arena.excerpt_rows - arena.apart.tokens, Quality.EXACT
        for text in arena.apart.texts:
            made = self._kept[text]
            planes = zip(arena.layout.planes, made.numbers, strict=True)
            arena.write(row, [self._turned(plane, numbers, row) for plane, numbers in planes])
            row += made.tokens
            worst = min(worst, made.quality)
        arena.rows.see(arena.apart.before_excerpts, worst)

    def _turned(self, plane: Plane, numbers: Numbers, row: int) -> Numbers:
        return turned(numbers, self._rotations[plane.rope][row]) if plane.rotated else numbers

    def _evict(self, last: int) -> None:
        tokens = sum(made.tokens for made in self._kept.values())
        while tokens > self._most and len(self._kept) > last:
            tokens -= self._kept.popitem(last=False)[1].tokens
