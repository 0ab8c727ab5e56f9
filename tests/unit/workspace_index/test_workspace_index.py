"""The index of a workspace: whatever happened to its files, it knows what an index made from nothing would know."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from efim_ls.access.rules import Rules
from efim_ls.paths import cache_folder
from efim_ls.settings import Settings
from efim_ls.workspace.database.origin import index_path, read_summary
from efim_ls.workspace.files.content import digest_of
from efim_ls.workspace.index import Scope, Steps, WorkspaceIndex, open_index
from efim_ls.workspace.overlay import Overlay
from model_runtime.checkpoint.embedded import EMBEDDED, SHIPPED
from model_runtime.counts.segment import LEAST, MOST
from model_runtime.counts.snapshot import EMPTY, Counts
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers

TOKENIZER = Tokenizer(EMBEDDED / "tokenizer.json")
TOKENIZERS = LanguageTokenizers(TOKENIZER, lambda: {"javascript": SHIPPED["javascript"]})
NAMES = ("a.py", "b.py", "deep/a.py", "deep/down/c.py", "web/a.ts", "web/b.tsx", "notes.txt", "ignored/a.py")
LINES = (
    "def total(values):\n", "    return sum(values)\n", "    total = total + 1\n", "import os\n",
    "x = total(values)\n", "const a = total(values);\n", "\n",
)  # fmt: skip
CLIENTS = range(2)
texts = st.lists(st.sampled_from(LINES), max_size=12).map("".join)
clients = st.sampled_from(CLIENTS)


def take(steps: Steps) -> None:
    for _ in steps:
        pass


def made(scope: Scope) -> WorkspaceIndex:
    return WorkspaceIndex(scope, open_index(scope, print))


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
    """A workspace that clients edit, save, switch, exclude from and leave; some steps are left for later."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp()).resolve()
        self.folder = self.place / "project"
        self.folder.mkdir()
        (self.folder / ".gitignore").write_text("ignored/\n")
        self.open: list[dict[str, str]] = [{} for _ in CLIENTS]
        self.unsaved: list[set[bytes]] = [set() for _ in CLIENTS]  # texts that a client has typed
        self.excluded: tuple[str, ...] = ()
        self.private: tuple[str, ...] = ()
        self.pending: list[Steps] = []
        self.overlays: list[Overlay] = []
        self.index = self.begin(self.place / "cache")

    def scope(self, cache: Path) -> Scope:
        chosen = Settings(disabled_files=self.excluded, private_files=self.private, cache_folder=str(cache))
        return Scope.of(chosen, Rules(chosen, [self.folder.as_uri()]), [self.folder], TOKENIZERS)

    def begin(self, cache: Path) -> WorkspaceIndex:
        index, self.overlays = made(self.scope(cache)), [Overlay() for _ in CLIENTS]
        for overlay in self.overlays:
            take(index.join(overlay))
        self.pending = [index.build()]
        for overlay, opened in zip(self.overlays, self.open, strict=True):
            self.pending += [index.open(overlay, str(self.folder / name), "python", opened[name]) for name in opened]
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
        for overlay, opened in zip(self.overlays, self.open, strict=True):
            if name in opened:  # editors read the file again
                opened[name] = text
                self.later(self.index.open(overlay, str(self.folder / name), "python", text))
        self.later(self.index.refresh([str(self.folder / name)]))

    @rule(client=clients, name=st.sampled_from(NAMES), text=texts)
    def edit(self, client: int, name: str, text: str) -> None:
        """Open a document, or edit it without saving."""
        text += f"client = {client}\n"
        self.open[client][name] = text
        self.unsaved[client].add(digest_of(text))
        self.later(self.index.open(self.overlays[client], str(self.folder / name), "python", text))

    @precondition(lambda self: any(self.open))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in CLIENTS if self.open[client]]))
        name = data.draw(st.sampled_from(sorted(self.open[client])))
        del self.open[client][name]
        self.later(self.index.close_document(self.overlays[client], str(self.folder / name)))

    @rule(client=clients)
    def leave_and_come_back(self, client: int) -> None:
        self.later(self.index.leave(self.overlays[client]))
        self.take_pending()  # what a client asked for is done before it is forgotten
        self.open[client], self.overlays[client] = {}, Overlay()
        take(self.index.join(self.overlays[client]))

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
        """Each client of an index sees what an index of its own would show."""
        self.take_pending()
        for overlay, opened in zip(self.overlays, self.open, strict=True):
            other, alone = made(self.scope(self.place / f"cache-{id(object())}")), Overlay()
            take(other.join(alone))
            take(other.build())
            for name, text in opened.items():
                take(other.open(alone, str(self.folder / name), "python", text))
            self.assert_same(overlay, alone, opened)
            other.close()

    def take_pending(self) -> None:
        for steps in self.pending:
            take(steps)
        self.pending = []

    def assert_same(self, overlay: Overlay, other: Overlay, opened: dict[str, str]) -> None:
        """Check that two clients see the same, and that it is what the texts say."""

        def text_of(path: str) -> str:
            name = Path(path).relative_to(self.folder).as_posix()
            return opened[name] if name in opened else Path(path).read_text("utf-8")

        for family in {*overlay.counts, *other.counts}:
            mine, fresh = overlay.counts.get(family, EMPTY), other.counts.get(family, EMPTY)
            assert dict(mine.paths) == dict(fresh.paths)
            assert mine.version == fresh.version
            encode = TOKENIZERS.of(family).encode
            ends = [encode("".join(LINES[at:] + LINES[:at]).rstrip()) for at in range(len(LINES))]
            assert followers(mine, ends) == followers(fresh, ends) == followers(mine.merged(), ends)
            read = [encode(text_of(path)) for path in fresh.paths]
            for end, said in zip(ends, followers(mine, ends), strict=True):
                tokens, lengths, counts = said
                assert dict(zip(zip(lengths, tokens, strict=True), counts, strict=True)) == counted(read, end)

    @invariant()
    def nothing_excluded_is_published(self) -> None:
        paths = [path for each in self.overlays for counts in each.counts.values() for path in counts.paths]
        rules = self.scope(self.place / "cache").rules
        assert not [path for path in paths if rules.verdict(Path(path).as_uri(), "").off or "ignored" in path]

    @invariant()
    def no_client_sees_what_another_types(self) -> None:
        for overlay, unsaved in zip(self.overlays, reversed(self.unsaved), strict=True):
            assert not {digest for counts in overlay.counts.values() for digest in counts.paths.values()} & unsaved

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.place)


TestWorkspace = Workspace.TestCase
TestWorkspace.settings = settings(max_examples=40, stateful_step_count=25)


LARGE = "".join(f"def total_{n}(values):\n    return sum(values[{n}:])\n\n\n" for n in range(1200))


@pytest.fixture
def project(tmp_path: Path) -> Scope:
    """A workspace of several files, so large that a change does not index all of them again."""
    (tmp_path / "project").mkdir()
    for number in range(4):
        (tmp_path / "project" / f"m{number}.py").write_text(LARGE.replace("total", f"total{number}"))
    chosen = Settings(cache_folder=str(tmp_path / "cache"))
    folder = tmp_path / "project"
    return Scope.of(chosen, Rules(chosen, [folder.as_uri()]), [folder], TOKENIZERS)


def joined(index: WorkspaceIndex) -> Overlay:
    take(index.join(overlay := Overlay()))
    return overlay


def test_each_family_is_counted_in_its_own_tokens(tmp_path: Path) -> None:
    """Files of one text in two languages, too, also when they are read back."""
    text, folder = "x = total(values)\nconst a = total(values);\n", tmp_path / "project"
    folder.mkdir()
    for name in ("a.py", "a.ts"):
        (folder / name).write_text(text)
    chosen = Settings(cache_folder=str(tmp_path / "cache"))
    for tokenizers in (TOKENIZERS, TOKENIZERS, LanguageTokenizers(TOKENIZER), TOKENIZERS):
        index = made(Scope.of(chosen, Rules(chosen, [folder.as_uri()]), [folder], tokenizers))
        overlay = joined(index)
        take(index.build())
        for family in ("python", "javascript"):
            ids = tokenizers.of(family).encode(text)
            assert followers(overlay.counts[family], [ids[:3]])[0][0] == [int(ids[3])]
        index.close()


def test_headers_are_indexed_in_the_language_that_text_and_neighbours_tell(tmp_path: Path) -> None:
    folder, chosen = tmp_path / "project", Settings(cache_folder=str(tmp_path / "cache"))
    files = {
        "both/a.h": "int a;\n", "both/a.cpp": "int b;\n", "both/b.h": "int c;\n", "both/b.c": "int d;\n",
        "alone/a.h": "int e;\n", "alone/b.h": "class F {};\n", "cpp/a.h": "int g;\n", "cpp/b.cc": "int h;\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    index = made(Scope.of(chosen, Rules(chosen, [folder.as_uri()]), [folder], TOKENIZERS))
    take(index.build())
    index.close()
    summary = read_summary(index_path(cache_folder(chosen.cache_folder), [folder]))
    assert summary is not None and summary.files == {"cpp": 5, "c": 3}


def test_clients_hold_the_same_arrays_whatever_each_has_open(project: Scope) -> None:
    index, path = made(project), project.folders[0] / "m1.py"
    first, second = joined(index), joined(index)
    take(index.build())
    whole = second.counts["python"]
    take(index.open(first, str(path), "python", LARGE + "x = 1\n"))
    assert second.counts["python"] is whole
    shared, mine = set(whole._state.segments), first.counts["python"]
    own = [segment.tokens for segment in mine._state.segments if segment not in shared]
    assert 0 < sum(own) <= 2 * len(TOKENIZER.encode_file(LARGE + "x = 1\n"))
    (project.folders[0] / "new.py").write_text("z = 1\n")
    take(index.refresh([str(project.folders[0] / "new.py")]))
    assert joined(index).counts["python"] is second.counts["python"] is not whole
    index.close()


def test_what_is_open_as_before_is_not_counted_again(project: Scope) -> None:
    index, path = made(project), str(project.folders[0] / "m1.py")
    first, second = joined(index), joined(index)
    take(index.build())
    take(index.open(first, path, "python", LARGE))
    before = first.counts
    take(index.open(second, path, "python", LARGE))
    take(index.leave(second))
    assert first.counts is before
    index.close()


def test_open_documents_of_the_client_that_has_most_leave_room_for_files(project: Scope) -> None:
    size = len(TOKENIZER.encode_file(LARGE.replace("total", "total0")))
    index = made(project)
    index._counts.free = 3 * size
    first, second = joined(index), joined(index)
    take(index.build())
    assert len(second.counts["python"].paths) == 3
    for overlay, name in ((first, "m3.py"), (second, "m0.py")):
        take(index.open(overlay, str(project.folders[0] / name), "python", LARGE))
    for overlay in (first, second):
        assert overlay.counts["python"].tokens <= 3 * size
    index.close()


def test_a_publication_while_a_document_is_opened_loses_nothing(project: Scope) -> None:
    index, path = made(project), project.folders[0] / "m1.py"
    overlay = joined(index)
    take(index.build())
    opening = index.open(overlay, str(path), "python", "only = 'in the editor'\n")
    next(opening)
    (project.folders[0] / "new.py").write_text("z = 1\n")
    take(index.refresh([str(project.folders[0] / "new.py")]))
    take(opening)
    digest = overlay.counts["python"].paths[str(path)]
    assert overlay.counts["python"].tokens and digest == digest_of("only = 'in the editor'\n")
    index.close()
