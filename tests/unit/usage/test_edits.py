"""Which accepted next edits count as kept."""

from __future__ import annotations

import pytest

from efim_ls.text.document import Edit
from efim_ls.usage.counters import Counters
from efim_ls.usage.suggestions import AcceptedEdits, Followers
from tests.waiting import loop_at_rest

LATER = 3600.0  # seconds: nothing is counted before the test says so
ADDED, REMOVED, REPLACED = Edit(10, "", ", size"), Edit(10, ", size", ""), Edit(10, "width", "depth")


class Counted:
    def __init__(self, counted_after: float = LATER) -> None:
        self.counters = Counters()
        self.edits = AcceptedEdits(self.counters, counted_after)
        self.followers: dict[str, Followers] = {"a": [], "b": []}

    def accept(self, edit: Edit, *later: Edit, uri: str = "a") -> None:
        self.edits.accept("a", "python", edit, self.followers["a"])
        for each in later:
            for follow in self.followers[uri]:
                follow(each)

    @property
    def kept(self) -> int:
        return self.counters._counts["edits_kept"]


@pytest.mark.parametrize("edit", [ADDED, REMOVED, REPLACED])
@pytest.mark.parametrize(
    ("later", "kept"),
    [
        ([], 1),
        ([Edit(0, "", "# a\n")], 1),
        ([Edit(40, "b", "")], 1),
        (["itself"], 1),
        (["undo"], 0),
        ([Edit(0, "", "# a\n"), "undo below"], 0),
        (["undo", "itself"], 0),
    ],
)
async def test_an_edit_is_kept_unless_it_is_taken_back(edit: Edit, later: list[Edit | str], kept: int) -> None:
    inverse = Edit(edit.at, edit.added, edit.removed)
    meant = {"itself": edit, "undo": inverse, "undo below": Edit(edit.at + 4, edit.added, edit.removed)}
    counted = Counted()
    counted.accept(edit, *(meant[each] if isinstance(each, str) else each for each in later))
    assert counted.kept == 0
    counted.edits.close()
    assert counted.kept == kept and counted.followers["a"] == []
    counted.edits.close()
    assert counted.kept == kept


async def test_an_edit_of_which_something_is_gone_is_not_kept() -> None:
    counted = Counted()
    counted.accept(REPLACED, Edit(12, "p", ""))
    counted.edits.close_document("a")
    assert counted.kept == 0


async def test_documents_are_told_apart() -> None:
    counted = Counted()
    counted.accept(REPLACED, Edit(10, "depth", "width"), uri="b")
    counted.edits.close_document("b")
    assert counted.kept == 0
    counted.edits.close_document("a")
    assert counted.kept == 1


async def test_what_is_kept_is_counted_after_a_while() -> None:
    counted = Counted(counted_after=0.0)
    counted.accept(REPLACED)
    await loop_at_rest()
    assert counted.kept == 1
    counted.edits.close()
    assert counted.kept == 1
