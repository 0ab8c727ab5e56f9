"""The cost of isolated excerpts for a file's first answer: cold, known, changed, and after a restart from disk.

`python -m benchmarks.excerpts`. The model is the embedded one, with a room that its config is given here: counts and
times do not depend on its training.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.table import show
from efim_ls.completion.models.kv_persistence import KvPersistence, open_for
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.engine.engine import GenerateJob, PrepareJob, SavedFrame
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from model_runtime.kv.pool import FrameId
from model_runtime.loading.checkpoint_reader import read_checkpoint
from model_runtime.loading.load import Model, load
from model_runtime.prompt.prompt import NO_IDS, LaidOut, Prompt, PromptPart, build

ROOM, EXCERPT, HEAD, TAIL, TYPED = 512, 120, 900, 250, 60  # tokens, and characters of the window's parts
REPEATS = 5
URI = "file:///project/bench.py"
RULE = StopRule(multiline=False, indent=0, max_lines=1)


class Side:
    """The model, loaded with a store in a folder."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.model = load(
            read_checkpoint(folder), ngrams=False, progress=lambda *_: None,
            device="cpu", weights="int8", threads=1, capacity=1400, kv_memory_mib=64,
        )  # fmt: skip
        opened = open_for(self.model.kv, Settings(cache_folder=str(store)), str(folder), 64)
        self.engine = LocalEngine(self.model.parts, KvPersistence(opened.store))
        self._frames: list[SavedFrame] = []

    def warm(self, ids: Ids) -> None:
        """Have code and weights in memory."""
        self.engine.prepare(
            PrepareJob(FrameId("warm"), Prompt((PromptPart("typed", ids),), stub=b"", history=NO_IDS)), NEVER
        )

    def answer(self, number: int, prompt: Prompt) -> dict[str, float]:
        """The costs of a first new token in a new frame."""
        self._frames.append(SavedFrame(FrameId(URI, number), prompt, frozenset()))
        began = time.process_time()
        made = self.engine.generate(GenerateJob(FrameId(URI, number), prompt, RULE, 1), NEVER)
        spent = (time.process_time() - began) * 1e3
        return {
            "prompt": prompt.tokens, "recomputed": made.stats.recomputed, "fetched": made.fetched,
            "milliseconds": round(spent, 2),
        }  # fmt: skip

    def close(self) -> None:
        """Save everything as at rest, and end."""
        self.engine.save(URI, self._frames, NEVER)
        self.engine.close(60)


def measure() -> dict[str, dict[str, float]]:
    """Return tokens and milliseconds of CPU time, medians of repeats, of first answers."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        shutil.copytree(EMBEDDED, folder)
        raw = json.loads((folder / "config.json").read_text("utf-8"))
        raw["isolated_excerpts"] = {"mask": "typed", "tokens": ROOM}
        (folder / "config.json").write_text(json.dumps(raw), "utf-8")
        rounds = [_round(folder, Path(temporary) / str(i)) for i in range(REPEATS)]
    figures = {name: _median([each[name] for each in rounds]) for name in rounds[0]}
    header = ["first token", *next(iter(figures.values()))]
    show(
        f"Isolated excerpts, a room of {ROOM} tokens",
        header,
        ([name, *row.values()] for name, row in figures.items()),
    )
    return figures


def _round(folder: Path, store: Path) -> dict[str, dict[str, float]]:
    side = Side(folder, store)
    texts = [path.read_text("utf-8") for path in sorted(Path(asyncio.__file__).parent.glob("[bstq]*.py"))]
    prompt, known = _prompts(side.model, texts), [0, 1, 2, 3]
    side.warm(prompt(5, known).ids[:80])
    found = {"opened, nothing known": side.answer(0, prompt(0, known))}
    found["the same excerpts in another order"] = side.answer(0, prompt(0, [3, 2, 1, 0]))
    found["one excerpt exchanged for a new one"] = side.answer(0, prompt(0, [1, 2, 3, 4]))
    found["another file, its excerpts known"] = side.answer(1, prompt(1, known))
    found["the file again, its excerpts known"] = side.answer(2, prompt(0, known))
    side.close()
    side = Side(folder, store)
    side.warm(prompt(5, known).ids[:80])
    found["after a restart"] = side.answer(0, prompt(0, known))
    side.close()
    return found


def _prompts(model: Model, texts: list[str]) -> Callable[[int, list[int]], Prompt]:
    separator, tokenizer = model.tokenizer.token("<|file_sep|>"), model.tokenizer

    def prompt(file: int, numbers: list[int]) -> Prompt:
        """A prompt at one place in a file, with excerpts of these numbers."""
        text = texts[file]
        window = text[:HEAD], text[HEAD + TYPED : HEAD + TYPED + TAIL], text[HEAD : HEAD + TYPED]
        excerpts = [tokenizer.encode(texts[2][1000 + 700 * i :])[:EXCERPT].copy() for i in numbers]
        if separator is not None:
            for ids in excerpts:
                ids[0] = separator
        assert model.mask
        parts = tuple(PromptPart("similar", ids, sees_excerpts=False, origin=URI) for ids in excerpts)
        return build(tokenizer, model.template, *window, context=LaidOut(apart=parts, mask=model.mask))

    return prompt


def _median(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


if __name__ == "__main__":
    print(json.dumps(measure()))
