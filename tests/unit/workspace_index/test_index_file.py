"""What the index remembers, and what it answers."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.languages.forms.language import Import
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.text.outline import Definition
from efim_ls.workspace.database.origin import IndexOrigin, index_path, read_summary
from efim_ls.workspace.database.queries import MOST_COMPARED, Passage
from efim_ls.workspace.database.tables import Entry
from efim_ls.workspace.files.content import IndexedFile, digest_of
from efim_ls.workspace.index_file import IndexFile
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.prompt.tokenizers_by_language import LanguageTokenizers
from tests.tiny_tokenizers import tokenizer as tiny
from tests.unit.workspace_index.conftest import ORIGIN, TOKENIZER, TOKENIZERS, Open, has_name, indexed

TEXT = "import os\n\ndef load_user(Name):\n    return Name\n"


@pytest.fixture(params=["file", "memory"])
def index(request: pytest.FixtureRequest, place: Path, reports: list[str]) -> IndexFile:
    made = IndexFile(
        place if request.param == "file" else None,
        ORIGIN,
        TOKENIZERS,
        reports.append,
        keeps="passages",
    )
    request.addfinalizer(made.close)
    return made


def ids_of(index: IndexFile, text: str) -> list[int] | None:
    return next((ids.tolist() for _, ids in index.ids([digest_of(text)])), None)


def renamed(file: IndexedFile, path: str) -> IndexedFile:
    """The same content at another path, which is not derived again."""
    return IndexedFile(file.file._replace(path=path), file.digest, None)


def test_what_is_put_is_found(index: IndexFile) -> None:
    index.put([indexed("/project/a.py", TEXT), indexed("/project/b.ts", "const x = 1", "typescript")])
    assert index.entries() == {
        "/project/a.py": Entry(len(TEXT), 1, digest_of(TEXT), "python"),
        "/project/b.ts": Entry(11, 1, digest_of("const x = 1"), "typescript"),
    }
    assert ids_of(index, TEXT) == TOKENIZER.encode(TEXT).tolist()
    assert ids_of(index, "something else") is None
    found = index.outline("/project/a.py")
    assert found and found.imports == (Import("os", ()),)
    assert index.outline("/project/c.py") is None


def test_names_are_told_apart_by_case_and_to_their_end(index: IndexFile) -> None:
    index.put([indexed("/project/a.py", TEXT + "größe = Ärger\nx" + "y" * 100)])
    for name in ("load_user", "Name", "os", "größe", "Ärger", "x" + "y" * 100):
        assert has_name(index, name), name
    for name in ("name", "load", "user", "Load_user", "load_use", "load_user2", "", '"', "a b", "^", "NOT"):
        assert not has_name(index, name), name


def test_definitions_of_a_name_in_all_files(index: IndexFile) -> None:
    index.put([indexed("/project/b.py", TEXT), indexed("/project/a.py", "x = 1\nclass load_user: pass\n")])
    assert index.definitions("load_user") == [
        ("/project/a.py", Definition("load_user", "class", 1, "class load_user")),
        ("/project/b.py", Definition("load_user", "function", 2, "def load_user(Name)")),
    ]
    assert index.definitions("Name") == []


def test_similar_passages_share_the_rarest_words(index: IndexFile) -> None:
    text = "".join(f"common = {n}\n" for n in range(45)) + "rare = common\n"
    index.put([indexed("/project/a.py", text), indexed("/project/b.py", "common = 1\n")])
    assert index.similar(["rare", "missing"], 5) == [Passage("/project/a.py", 40, 46)]
    assert index.similar(["common", "rare"], 5)[0] == Passage("/project/a.py", 40, 46)
    assert len(index.similar(["common", "rare"], 2)) == 2
    assert index.similar(["RARE", '"', "^", ""], 5) == [] == index.similar([], 5)


def test_words_that_stand_everywhere_are_not_compared(index: IndexFile) -> None:
    text = ("common = 1\n" * 40) * (MOST_COMPARED + 1) + "rare = common\n"
    index.put([indexed("/project/a.py", text)])
    assert index.similar(["common"], 5) == []
    assert len(index.similar(["common", "rare"], 5)) == 1


def test_a_changed_file_replaces_itself(index: IndexFile) -> None:
    index.put([indexed("/project/a.py", TEXT)])
    index.put([indexed("/project/a.py", "y = 2\n")])
    assert index.entries().keys() == {"/project/a.py"}
    assert ids_of(index, TEXT) is None and not has_name(index, "load_user") and not index.definitions("load_user")
    assert has_name(index, "y")


def test_a_copy_shares_what_is_derived_from_its_text(index: IndexFile) -> None:
    first = indexed("/project/a.py", TEXT)
    index.put([first])
    assert index.holds(first.digest, "python") and not index.holds(first.digest, "go")
    index.put([renamed(first, "/project/b.py")])
    assert [each.path for each in index.definitions("load_user")] == ["/project/a.py", "/project/b.py"]
    index.remove(["/project/a.py"], for_good=True)
    assert has_name(index, "load_user") and ids_of(index, TEXT) is not None
    index.remove(["/project/b.py"], for_good=True)
    assert not has_name(index, "load_user") and ids_of(index, TEXT) is None


def test_a_renamed_file_is_not_derived_again(open_index: Open) -> None:
    index, file = open_index(), indexed("/project/a.py", TEXT)
    index.put([file])
    index.remove(["/project/a.py"], for_good=False)
    assert index.entries() == {} and not has_name(index, "load_user") and not index.definitions("load_user")
    assert index.similar(["load_user"], 5) == [] and index.outline("/project/a.py") is None
    assert index.holds(file.digest, "python") and not index.holds(file.digest, "go")
    index.put([renamed(file, "/project/b.py")])
    index.remove([], for_good=True)
    assert index.entries().keys() == {"/project/b.py"} and has_name(index, "load_user")
    assert ids_of(index, TEXT) == TOKENIZER.encode(TEXT).tolist()


def test_what_is_gone_does_not_come_back(open_index: Open) -> None:
    index, file = open_index(), indexed("/project/a.py", TEXT)
    index.put([file])
    index.remove(["/project/a.py", "/project/unknown.py"], for_good=False)
    index.remove([], for_good=True)
    assert not index.holds(file.digest, "python")
    index.put([renamed(file, "/project/b.py")])
    assert index.entries() == {}


def test_a_restart_finds_everything(open_index: Open) -> None:
    index = open_index()
    index.put([indexed("/project/a.py", TEXT)])
    before = index.entries(), index.outline("/project/a.py")
    index.close()
    again = open_index()
    assert (again.entries(), again.outline("/project/a.py")) == before
    assert has_name(again, "load_user") and ids_of(again, TEXT) == TOKENIZER.encode(TEXT).tolist()
    assert again.generation == 0


def test_two_indexes_of_a_file_see_each_others_work(open_index: Open) -> None:
    first, second = open_index(), open_index()
    first.put([indexed("/project/a.py", TEXT)])
    second.put([indexed("/project/b.py", "y = 2\n")])
    assert first.entries() == second.entries() and has_name(first, "y")


def test_ids_of_another_tokenizer_are_kept_apart(place: Path, reports: list[str]) -> None:
    def ids(tokenizer: Tokenizer) -> list[int] | None:
        index = IndexFile(place, ORIGIN, LanguageTokenizers(tokenizer), reports.append, keeps="passages")
        try:
            if ids_of(index, TEXT) is None:
                file = indexed("/project/a.py", TEXT)
                assert file.content and not index.holds(file.digest, "python")
                index.put([file._replace(content=file.content._replace(ids=tokenizer.encode(TEXT)))])
                return None
            return ids_of(index, TEXT)
        finally:
            index.close()

    first, second, third = TOKENIZER, tiny("qwen"), tiny("llama3")
    assert [ids(first), ids(second)] == [None, None]
    assert [ids(first), ids(second)] == [first.encode(TEXT).tolist(), second.encode(TEXT).tolist()]
    assert ids(third) is None, "a third one takes the place of one of the two"
    assert sum(ids(each) is not None for each in (second, first)) == 1 and reports == []


def test_ids_beyond_two_bytes(place: Path, reports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOKENIZER, "token_bytes", [b""] * 100_000)
    index = IndexFile(place, ORIGIN, LanguageTokenizers(TOKENIZER), reports.append, keeps="passages")
    file = indexed("/project/a.py", TEXT)
    assert file.content
    ids = np.array([1, 65_536, 99_999], dtype=np.int32)
    index.put([file._replace(content=file.content._replace(ids=ids))])
    assert ids_of(index, TEXT) == ids.tolist()
    index.close()


def test_the_path_names_a_set_of_folders(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert index_path(tmp_path, ["/a", "/b"]) == index_path(tmp_path, ["/b", "/a", "/b"])
    assert index_path(tmp_path, ["/a"]) != index_path(tmp_path, ["/a", "/b"])
    assert index_path(tmp_path, [tmp_path / "link"]) == index_path(tmp_path, [tmp_path])


def test_the_file_says_whose_it_is(place: Path, reports: list[str]) -> None:
    settings = Settings(private_files=("*/client/*",), persist=True, model="/models/x", max_lines=3)
    for origin in (ORIGIN, IndexOrigin(("/project", "/other"), settings)):
        index = IndexFile(place, origin, TOKENIZERS, reports.append, keeps="passages")
        index.put([indexed("/project/a.py", TEXT), indexed("/project/b.py", "")])
        index.close()
    found = read_summary(place)
    assert found and found.files == {"python": 2} and found.origin.folders == ("/project", "/other")
    kept = found.origin.settings
    assert (kept.private_files, kept.model) == (settings.private_files, settings.model)
    assert kept.max_lines == DEFAULTS.max_lines, "only what decides about files is kept"
    assert read_summary(place.with_name("missing")) is None


@given(names=st.sets(st.text("abä/𝕏", min_size=1, max_size=4)), most=st.integers(1, 5), hidden=st.integers(0, 7))
@settings(max_examples=25)
def test_entries_come_in_parts(names: set[str], most: int, hidden: int) -> None:
    with TemporaryDirectory() as folder:
        index = IndexFile(Path(folder, "index.sqlite3"), ORIGIN, TOKENIZERS, print, keeps="passages")
        files = [indexed(f"/{name}", name, private=n < hidden) for n, name in enumerate(sorted(names))]
        index.put(files)
        found, last = dict[str, object](), ""
        while page := index.entries(last, most):
            assert len(page) <= most and not found.keys() & page.keys()
            found.update(page)
            last = max(page)
        assert found == index.entries() and found.keys() == {each.file.path for each in files}
        index.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux lists open files so")
def test_until_it_is_searched_an_index_takes_two_open_files(open_index: Open) -> None:
    kept = open_index()  # the third file, of shared memory, is one for all that a process opens
    before = len(os.listdir("/proc/self/fd"))
    index = open_index()
    index.put([indexed("/project/a.py", "x = 1\n")])
    assert len(os.listdir("/proc/self/fd")) == before + 2
    assert has_name(index, "x")
    assert len(os.listdir("/proc/self/fd")) == before + 4
    kept.close()
