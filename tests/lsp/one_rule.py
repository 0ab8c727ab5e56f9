"""A rule for tests of how next edits are shown: what was replaced last is replaced at its next place, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

from efim_ls.next_edit.rules.next_edits import NextEdits
from efim_ls.next_edit.situation import ProposedEdit
from efim_ls.text.document import Document
from efim_ls.text.outline import Importable

RULE = "as last time"


class OneRule(NextEdits):
    """Proposes for a document in which a word was replaced what follows, unless it was refused."""

    def propose(self, document: Document, cursor: int, importable: Sequence[Importable] = ()) -> ProposedEdit | None:
        if not (edits := self._history.recent(1)) or not (last := edits[0]).removed:
            return None
        if document.uri != last.uri:
            return None
        word, new = _word(document.text, last.at, last.removed, last.added)
        if new == "crash":
            raise ValueError(new)
        places = [each.start() for each in re.finditer(rf"\b{re.escape(word)}\b", document.text)]
        offers = [ProposedEdit(last.uri, at, at + len(word), word, new, RULE, 0.9, (last,)) for at in places]
        free = [each for each in offers if each not in refused(self)]
        return min(free, key=lambda each: abs(each.start - cursor), default=None)

    def refuse(self, edit: ProposedEdit) -> None:
        refused(self).append(edit)


def refused(rules: NextEdits) -> list[ProposedEdit]:
    return rules.__dict__.setdefault("refused", [])


def _word(text: str, at: int, removed: str, added: str) -> tuple[str, str]:
    """The word that an edit of some of its letters was, and the one that it is now."""
    before = re.search(r"\w*$", text[:at])
    after = re.match(r"\w*", text[at + len(added) :])
    assert before and after
    return before[0] + removed + after[0], before[0] + added + after[0]


def use() -> None:
    """Let every client of this process be offered what this rule proposes."""
    for name in ("propose", "refuse"):
        setattr(NextEdits, name, getattr(OneRule, name))
