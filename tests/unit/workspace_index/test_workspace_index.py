"""The index of a workspace: whatever happened to its files, it knows what an index made from nothing would know."""

from __future__ import annotations

import gc
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from efim_ls.access.rules import Rules
from efim_ls.settings import Settings
from efim_ls.workspace.content import digest_of
from efim_ls.workspace.index import Scope, Steps, WorkspaceIndex, open_index
from efim_ls.workspace.index_file import IndexFile
from model_runtime.checkpoint.config import EMBEDDED
from model_runtime.counts.segment import LEAST, MOST
from model_runtime.counts.snapshot import EMPTY, Counts
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


def made(scope: Scope) -> WorkspaceIndex:
    return WorkspaceIndex(scope, open_index(scope, print), lambda status: None)


def followers(counts: Counts, ends: list[np.ndarray]) -> list[list[list[int]]]:
    """What a memory says after some ends of texts."""
    view = counts.without([])
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
        index = made(self.scope(cache))
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
        other = made(self.scope(self.place / f"cache-{id(object())}"))
        take(other.build())
        for name, text in self.open.items():
            take(other.open(str(self.folder / name), "python", text))
        self.assert_same(self.index, other, self.open)
        other.close()

    @rule(name=st.sampled_from(NAMES), text=texts)
    def another_window_opens(self, name: str, text: str) -> None:
        """A second window of the workspace counts what it would alone, and changes nothing in the first."""
        before = {family: counts.version for family, counts in self.index.counts.snapshot.items()}
        window, alone = made(self.scope(self.place / "cache")), made(self.scope(self.place / f"cache-{id(object())}"))
        for index in (window, alone):
            take(index.build())
            take(index.open(str(self.folder / name), "python", text))
        self.assert_same(window, alone, {name: text})
        window.close()
        alone.close()
        assert before == {family: counts.version for family, counts in self.index.counts.snapshot.items()}

    def assert_same(self, index: WorkspaceIndex, other: WorkspaceIndex, opened: dict[str, str]) -> None:
        """Check that two indexes hold and say the same, and that it is what the texts say."""

        def text_of(path: str) -> str:
            name = Path(path).relative_to(self.folder).as_posix()
            return opened[name] if name in opened else Path(path).read_text("utf-8")

        for family in {*index.counts.snapshot, *other.counts.snapshot}:
            mine, fresh = index.counts.snapshot.get(family, EMPTY), other.counts.snapshot.get(family, EMPTY)
            assert dict(mine.paths) == dict(fresh.paths)
            assert mine.version == fresh.version
            ends = [TOKENIZER.encode("".join(LINES[at:] + LINES[:at]).rstrip()) for at in range(len(LINES))]
            assert followers(mine, ends) == followers(fresh, ends) == followers(mine.merged(), ends)
            read = [TOKENIZER.encode(text_of(path)) for path in fresh.paths]
            for end, said in zip(ends, followers(mine, ends), strict=True):
                tokens, lengths, counts = said
                assert dict(zip(zip(lengths, tokens, strict=True), counts, strict=True)) == counted(read, end)

    @invariant()
    def nothing_excluded_is_published(self) -> None:
        paths = [path for counts in self.index.counts.snapshot.values() for path in counts.paths]
        rules = self.scope(self.place / "cache").rules
        assert not [path for path in paths if rules.verdict(Path(path).as_uri(), "").off or "ignored" in path]

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.place)


TestWorkspace = Workspace.TestCase
TestWorkspace.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)


LARGE = "".join(f"def total_{n}(values):\n    return sum(values[{n}:])\n\n\n" for n in range(1200))


@pytest.fixture
def project(tmp_path: Path) -> Scope:
    """A workspace of several files, so large that a change does not index all of them again."""
    (tmp_path / "project").mkdir()
    for number in range(4):
        (tmp_path / "project" / f"m{number}.py").write_text(LARGE.replace("total", f"total{number}"))
    chosen = Settings(cache_folder=str(tmp_path / "cache"))
    folder = tmp_path / "project"
    return Scope.of(chosen, Rules(chosen, [folder.as_uri()]), [folder], TOKENIZER)


@pytest.fixture
def window(project: Scope) -> Iterator[Callable[[], WorkspaceIndex]]:
    """Open windows of the project; all are closed at the end."""
    opened = list[WorkspaceIndex]()

    def open_one() -> WorkspaceIndex:
        opened.append(made(project))
        take(opened[-1].build())
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def own_tokens(index: WorkspaceIndex, other: WorkspaceIndex) -> int:
    """How many tokens the arrays of an index have that are not another one's, too."""
    held, others = (each.counts.snapshot["python"]._state.segments for each in (index, other))
    return sum(segment.tokens for segment in held if segment not in others)


def test_windows_hold_the_same_arrays_whatever_each_has_open(
    window: Callable[[], WorkspaceIndex], project: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, path = window(), project.folders[0] / "m1.py"
    take(first.open(str(path), "python", LARGE + "x = 1\n"))
    with monkeypatch.context() as patch:
        patch.setattr(IndexFile, "ids", lambda *_: pytest.fail("what the first window holds is not read again"))
        second = window()
    unsaved = len(TOKENIZER.encode_file(LARGE + "x = 1\n"))
    assert own_tokens(second, first) == 0 and 0 < own_tokens(first, second) <= 2 * unsaved
    path.write_text("y = 1\n")
    for each in (second, first):
        take(each.refresh([str(path)]))
    assert own_tokens(second, first) <= 100 and own_tokens(first, second) <= 2 * unsaved


def test_a_window_of_a_workspace_that_is_published_in_parts_holds_the_same_arrays(
    window: Callable[[], WorkspaceIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efim_ls.workspace.index.FIRST_TOKENS", 1)
    first, second = window(), window()
    assert second.counts.snapshot["python"].tokens == first.counts.snapshot["python"].tokens > 0
    assert own_tokens(first, second) == own_tokens(second, first) == 0


def test_an_index_of_other_settings_holds_arrays_of_its_own(
    window: Callable[[], WorkspaceIndex], project: Scope
) -> None:
    first = window()
    other = made(replace(project, settings=replace(project.settings, disabled_files=("*/m1.py",))))
    take(other.build())
    assert own_tokens(first, other) == first.counts.snapshot["python"].tokens + 5  # the breaks
    other.close()


def test_a_merge_of_one_window_is_taken_up_by_the_other(
    window: Callable[[], WorkspaceIndex], project: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, new = window(), window(), project.folders[0] / "new.py"
    before = first.counts.snapshot["python"]._state.segments
    new.write_text("z = 1\n")
    with monkeypatch.context() as patch:
        patch.setattr(Counts, "needs_merge", True)
        take(second.refresh([str(new)]))
    take(first.refresh([str(new)]))
    mine, others = (each.counts.snapshot["python"]._state.segments for each in (first, second))
    assert mine == others != before


def test_a_publication_while_a_document_is_opened_loses_nothing(project: Scope) -> None:
    index, path = made(project), project.folders[0] / "m1.py"
    take(index.build())
    opening = index.open(str(path), "python", "only = 'in the editor'\n")
    next(opening)
    (project.folders[0] / "new.py").write_text("z = 1\n")
    take(index.refresh([str(project.folders[0] / "new.py")]))
    take(opening)
    digest = index.counts.snapshot["python"].paths[str(path)]
    assert index.counts.snapshot["python"].tokens and digest == digest_of("only = 'in the editor'\n")
    index.close()


def test_what_no_window_holds_any_more_is_gone(project: Scope) -> None:
    index = made(project)
    take(index.build())
    held = weakref.ref(index.counts.snapshot["python"])
    index.close()
    del index
    gc.collect()
    assert held() is None
