"""Recomputed tokens of recorded keystrokes, small enough to be counted by hand."""

from __future__ import annotations

import pytest

from efim_lab.gate.replay.policies import POLICIES, count_radix_rows, count_rows
from efim_lab.gate.replay.report import KeystrokeRow
from efim_lab.gate.replay.trace import REST, Event, Keystroke, Patch, Trace, keystrokes
from efim_ls.completion.planning.window import Budget

BUDGET = Budget(head=64, tail=16)

# Tokens stand apart in the drawings below, ⏎ is a line end, P S M are the markers, ‸ is the cursor.
DRAWN = (
    "a = 1\n‸\nc = 3\n",
    "a = 1\nx‸\nc = 3\n",
    "a = 1\nx y‸\nc = 3\n",
    "a = 1‸\nx y\nc = 3\n",
)
COUNTED = {
    # P [a _= _ 1 ⏎ x] S [⏎ c _= _ 3 ⏎] M: all text before the cursor in front, every keystroke moves the rest
    "psm": [(14, 14), (15, 9), (16, 9), (16, 11)],
    "none": [(14, 14), (15, 15), (16, 16), (16, 16)],
    # P S [⏎ c _= _ 3 ⏎] M [a _= _ 1 ⏎ x]: typing appends, going up changes the first part
    "spm": [(14, 14), (15, 1), (16, 1), (16, 13)],
    # P [a _= _ 1 ⏎] S [⏎ c _= _ 3 ⏎] M [x]: typing appends, a new place is a new session
    "efim-paper": [(14, 14), (15, 1), (16, 1), (16, 11)],
    # P S [c _= _ 3 ⏎] M [a _= _ 1 ⏎ x]: lines above are typed, the last piece is left to the first new tokens; a new
    # place has a sequence of its own
    "efim": [(13, 13), (13, 0), (14, 1), (14, 14)],
}
NEW = {"efim": [True, False, False, True], "efim-paper": [True, False, False, True]}


def session(*drawn: str) -> list[Keystroke]:
    return [Keystroke(before + after, len(before)) for before, _, after in (text.partition("‸") for text in drawn)]


def rested(key: Keystroke, *drawn: str) -> Keystroke:
    (before,) = session(*drawn)
    return key._replace(rested=before[:2])


def typing(above: str, typed: str, below: str) -> list[Keystroke]:
    return session(*(f"{above}{typed[:n]}‸{below}" for n in range(len(typed) + 1)))


def jumping(seconds: float) -> list[Keystroke]:
    """A letter at the end of every line of a text, with a pause before each."""
    text = "total = first + second\n" * 12
    ends = [at for at, character in enumerate(text) if character == "\n"]
    events = [Event(seconds * number, [Patch(at + number, 0, "s")]) for number, at in enumerate(ends)]
    return list(keystrokes(Trace(text, events)))


TYPED = typing(
    "import os\n\n\n", "def area(w, h):\n    return w * h\n\n\nprint(area(2, 3))", "\n\n\nx = os.name\n" * 9
)


def counted(policy: str, edits: list[Keystroke]) -> list[KeystrokeRow]:
    return list(count_rows(edits, policy, BUDGET))


def recomputed(policy: str, edits: list[Keystroke]) -> int:
    return sum(each.recomputed for each in counted(policy, edits))


def test_every_policy_is_counted_by_hand() -> None:
    assert COUNTED.keys() == POLICIES.keys()


@pytest.mark.parametrize("policy", COUNTED)
def test_prompt_and_recomputed_tokens_of_a_policy(policy: str) -> None:
    found = [(each.prompt_tokens, each.recomputed) for each in counted(policy, session(*DRAWN))]
    assert found == COUNTED[policy]


# DRAWN[1] again after DRAWN[2]: one sequence has lost what follows the x, a radix cache only the last token's logits.
@pytest.mark.parametrize(("policy", "one", "radix"), [("psm", 8, 1), ("spm", 1, 1), ("efim-paper", 1, 1)])
def test_a_radix_cache_knows_the_prompts_before_the_last_one(policy: str, one: int, radix: int) -> None:
    back = session(DRAWN[1], DRAWN[2], DRAWN[1])
    assert counted(policy, back)[-1].recomputed == one
    assert list(count_radix_rows(back, policy, BUDGET))[-1].recomputed == radix


@pytest.mark.parametrize("policy", NEW)
def test_new_frames_are_told(policy: str) -> None:
    assert [each.reanchored for each in counted(policy, session(*DRAWN))] == NEW[policy]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_keystroke_recomputes_no_more_than_its_prompt(policy: str) -> None:
    assert all(0 <= each.recomputed <= each.prompt_tokens for each in counted(policy, TYPED))


@pytest.mark.parametrize("policy", POLICIES)
def test_where_the_cursor_never_rested_nothing_is_computed_ahead(policy: str) -> None:
    assert [(each.ahead, each.wasted) for each in counted(policy, session(*DRAWN))] == [(0, 0)] * len(DRAWN)


def test_a_rest_at_the_place_makes_the_frame_ahead_of_the_keystroke() -> None:
    *typed, up = session(*DRAWN)
    last = counted("efim", [*typed, rested(up, "a = ‸\nx y\nc = 3\n")])[-1]
    assert last == KeystrokeRow(prompt_tokens=14, recomputed=1, ahead=13, wasted=0, reanchored=False)


def test_what_was_computed_ahead_and_given_up_unused_is_told_from_then_on() -> None:
    # typed [x] is computed as far as [x _) _)], then truncated
    first, second, third = session("a\nx‸ ) ) )\nc\n", "a\nx ‸ ) ) )\nc\n", "a\nx y‸ ) ) )\nc\n")
    counts = counted("efim", [first, rested(second, "a\nx ) ) )‸\nc\n"), third])
    assert [(each.ahead, each.wasted) for each in counts] == [(0, 0), (3, 3), (0, 3)]


def test_what_was_computed_ahead_and_used_is_no_waste() -> None:
    first, second, third = session("a\nx‸ ) ) )\nc\n", "a\nx ) ) ) y‸\nc\n", "a\nx z w‸\nc\n")
    counts = counted("efim", [first, rested(second, "a\nx ) ) )‸\nc\n"), third])
    assert [(each.ahead, each.wasted) for each in counts] == [(0, 0), (3, 0), (0, 0)]


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"efim"}))
def test_other_policies_compute_nothing_ahead(policy: str) -> None:
    *typed, up = session(*DRAWN)
    assert counted(policy, [*typed, rested(up, "a = ‸\nx y\nc = 3\n")]) == counted(policy, session(*DRAWN))


def test_jumps_after_a_rest_wait_for_little() -> None:
    hasty, patient = counted("efim", jumping(REST / 2)), counted("efim", jumping(REST))
    assert all(each.ahead == 0 for each in hasty)
    assert sum(each.ahead for each in patient) > 100
    assert max(each.recomputed for each in patient[1:]) <= 2
    assert max(each.recomputed for each in hasty[1:]) > 30


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"none"}))
def test_an_unchanged_prompt_costs_nothing(policy: str) -> None:
    assert counted(policy, session(DRAWN[2], DRAWN[2]))[1].recomputed == 0


def test_without_a_cache_everything_is_recomputed() -> None:
    assert all(each.recomputed == each.prompt_tokens for each in counted("none", TYPED))


def test_typing_costs_the_fewest_tokens_with_efim() -> None:
    costs = {policy: recomputed(policy, TYPED) for policy in POLICIES}
    assert costs["efim"] <= costs["efim-paper"] <= costs["psm"] <= costs["none"]
    assert costs["efim"] <= costs["spm"]


def test_typing_past_the_first_keystroke_costs_efim_a_few_tokens_each() -> None:
    first, *others = counted("efim", TYPED)
    assert first.recomputed == first.prompt_tokens
    kept = [each.recomputed for each in others if not each.reanchored]
    assert max(kept) <= 3


@pytest.mark.parametrize("policy", POLICIES)
def test_counting_again_counts_the_same(policy: str) -> None:
    assert counted(policy, TYPED) == counted(policy, TYPED)
