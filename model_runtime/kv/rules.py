"""The rules of a layout's kinds of layers, for the rows of its arenas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_runtime.kv.layout import SLIDING_PASS, KvLayout
from model_runtime.row_rules import RowRule
from model_runtime.shelves.states.rule import StateRule
from model_runtime.shelves.windows.rule import WindowRule

# Returns the rule of an arena with such a layout and such states, if it has layers of a kind.
ROW_RULES: tuple[Callable[[KvLayout, Any], RowRule | None], ...] = (
    lambda layout, states: StateRule(layout.kept_states, states) if layout.states else None,
    lambda layout, _: WindowRule(layout.window, SLIDING_PASS) if layout.window else None,
)


def row_rules(layout: KvLayout, states: Any) -> tuple[RowRule, ...]:
    """Return the rules of an arena, which has them for itself; none if every layer keeps all rows."""
    return tuple(rule for row in ROW_RULES if (rule := row(layout, states)))
