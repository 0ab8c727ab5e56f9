"""The index of a workspace: whatever happened to its files, it knows what an index made from nothing would know."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from efim_ls.access.rules import Rules
from efim_ls.repository.workspace_index import Scope, Steps, WorkspaceIndex
from efim_ls.settings import Settings
from model_runtime.checkpoint.config import EMBEDDED
from model_runtime.memory.memory import EMPTY, Memory
from model_runtime.memory.segment import LEAST, MOST
from model_runtime.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
NAMES = ("a.py", "b.py", "deep/a.py", "deep/down/c.py", "web/a.ts", "web/b.tsx", "notes.txt", "ignored/a.py")
LINES = (
    "def total(values):\n", "    return sum(values)\n", "    total = total + 1\n", "import os\n",
    "x = total(values)\n", "const a = total(values);\n", "\n",
)  # fmt: skip
texts = st.lists(st.sampled_from(LINES), max_size=12).map("".join)


def take(steps: Steps) -> None:
    for _ in steps:
        pass


def followers(memory: Memory, ends: list[np.ndarray]) -> list[list[list[int]]]:
    """What a memory says after some ends of texts."""
    view = memory.without([])
    found = [view.followers(end) for end in ends]
    return [[each.tokens.tolist(), each.lengths.tolist(), each.counts.tolist()] for each in found]


def counted(texts_of: list[np.ndarray], end: np.ndarray) -> dict[tuple[int, int], int]:
    """How often each token followed a match of each exact length, by looking at every place."""
    found: dict[tuple[int, int], int] = {}
    for ids in texts_of:
        for at in range(len(ids) - 1):
            length = 0
            while length < min(MOST, len(end), at + 1) and ids[at - length] == end[len(end) - 1 - length]:
                length += 1
            if length >= LEAST:
                key = (length, int(ids[at + 1]))
                found[key] = found.get(key, 0) + 1
    return found


class Workspace(RuleBasedStateMachine):
    """A workspace that is edited, saved, switched, excluded from and restarted; some steps are left for later."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp()).resolve()
        self.folder = self.place / "project"
        self.folder.mkdir()
        (self.folder / ".gitignore").write_text("ignored/\n")
        self.open: dict[str, str] = {}
        self.excluded: tuple[str, ...] = ()
        self.private: tuple[str, ...] = ()
        self.pending: list[Steps] = []
        self.index = self.begin(self.place / "cache")

    def scope(self, cache: Path) -> Scope:
        chosen = Settings(disabled_files=self.excluded, private_files=self.private, cache_folder=str(cache))
        return Scope.of(chosen, Rules(chosen, [self.folder.as_uri()]), [self.folder], TOKENIZER)

    def begin(self, cache: Path) -> WorkspaceIndex:
        index = WorkspaceIndex(self.scope(cache), lambda status: None)
        self.pending = [index.build()]
        self.pending += [index.open(str(self.folder / name), "python", text) for name, text in self.open.items()]
        return index

    def later(self, steps: Steps) -> None:
        self.pending.append(steps)

    @initialize(names=st.lists(st.sampled_from(NAMES)), text=texts)
    def first_files(self, names: list[str], text: str) -> None:
        for name in names:
            self.put(name, text + name)

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    @rule(name=st.sampled_from(NAMES), text=texts)
    def save(self, name: str, text: str) -> None:
        self.put(name, text)
        if name in self.open:
            self.open[name] = text
            self.later(self.index.open(str(self.folder / name), "python", text))
        self.later(self.index.refresh([str(self.folder / name)]))

    @rule(name=st.sampled_from(NAMES), text=texts)
    def edit(self, name: str, text: str) -> None:
        """Open a document, or edit it without saving."""
        self.open[name] = text
        self.later(self.index.open(str(self.folder / name), "python", text))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        del self.open[name]
        self.later(self.index.close_document(str(self.folder / name)))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        self.later(self.index.refresh([str(self.folder / name)]))

    @rule(name=st.sampled_from(("deep", "web")), to=st.sampled_from(("moved", "ignored/moved")))
    def rename_folder(self, name: str, to: str) -> None:
        if (self.folder / name).is_dir() and not (self.folder / to).exists():
            (self.folder / to).parent.mkdir(exist_ok=True)
            (self.folder / name).rename(self.folder / to)
            self.later(self.index.refresh([str(self.folder / name), str(self.folder / to)]))

    @rule(pattern=st.sampled_from(((), ("*/a.py",), ("*.ts", "*/deep/*"))))
    def exclude(self, pattern: tuple[str, ...]) -> None:
        self.excluded = pattern
        self.restart()

    @rule(pattern=st.sampled_from(((), ("*/b.py",))))
    def keep_private(self, pattern: tuple[str, ...]) -> None:
        self.private = pattern
        self.restart()

    @rule()
    def restart(self) -> None:
        self.index.close()
        self.index = self.begin(self.place / "cache")

    @rule(data=st.data())
    def work_a_while(self, data: st.DataObject) -> None:
        """Take some steps of what is to be done, the newest first as often as the oldest."""
        for _ in range(data.draw(st.integers(1, 5))):
            if self.pending:
                at = data.draw(st.sampled_from((0, -1)))
                if next(self.pending[at], self) is self:
                    self.pending.pop(at)

    @rule()
    def settle(self) -> None:
        for steps in self.pending:
            take(steps)
        self.pending = []
        other = WorkspaceIndex(self.scope(self.place / f"cache-{id(object())}"), lambda status: None)
        take(other.build())
        for name, text in self.open.items():
            take(other.open(str(self.folder / name), "python", text))
        families = {*self.index.snapshot, *other.snapshot}
        for family in families:
            mine, fresh = self.index.snapshot.get(family, EMPTY), other.snapshot.get(family, EMPTY)
            assert dict(mine.paths) == dict(fresh.paths)
            assert mine.version == fresh.version
            ends = [TOKENIZER.encode("".join(LINES[at:] + LINES[:at]).rstrip()) for at in range(len(LINES))]
            assert followers(mine, ends) == followers(fresh, ends) == followers(mine.merged(), ends)
            read = [TOKENIZER.encode(self.text_of(path)) for path in fresh.paths]
            for end, said in zip(ends, followers(mine, ends), strict=True):
                tokens, lengths, counts = said
                assert dict(zip(zip(lengths, tokens, strict=True), counts, strict=True)) == counted(read, end)
        other.close()

    def text_of(self, path: str) -> str:
        name = Path(path).relative_to(self.folder).as_posix()
        return self.open[name] if name in self.open else Path(path).read_text("utf-8")

    @invariant()
    def nothing_excluded_is_published(self) -> None:
        paths = [path for memory in self.index.snapshot.values() for path in memory.paths]
        rules = self.scope(self.place / "cache").rules
        assert not [path for path in paths if rules.verdict(Path(path).as_uri(), "").off or "ignored" in path]

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.place)


TestWorkspace = Workspace.TestCase
TestWorkspace.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
