"""What is never offered."""

from __future__ import annotations

from efim_ls.next_edit.tokens import TokenChange, balance


def unbalances(change: TokenChange) -> bool:
    """Return whether a change leaves other brackets of its line open, or closes others."""
    before = (*change.left, *change.removed, *change.right)
    return balance(before) != balance((*change.left, *change.added, *change.right))
