"""People cut from recordings, and what blocks of whole tokens reuse of their prompts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_lab.gate.commands.cli import main
from efim_lab.gate.errors import WorkError
from efim_lab.gate.replay.trace import Event, Patch, Trace
from efim_lab.gate.team.blocks import BlockCache, count_blocks
from efim_lab.gate.team.people import TYPING, PersonKey, keys_a_minute, people_of
from efim_ls.completion.planning.window import Budget
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.ids import Ids, common_prefix

BUDGET = Budget(head=64, tail=16)
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=20)


def ids(*tokens: int) -> Ids:
    return np.array(tokens, dtype=np.int32)


def typing(text: str, seconds: float = 0.5) -> Trace:
    events = [Event(number * seconds, [Patch(number, 0, letter)]) for number, letter in enumerate(text)]
    return Trace("", events)


@given(PROMPTS, st.integers(1, 5))
def test_whole_blocks_are_reused_whichever_prompt_had_them_and_never_all(prompts: list[list[int]], size: int) -> None:
    cache, seen = BlockCache(size), list[Ids]()
    for prompt in (ids(*each) for each in prompts):
        common = max((common_prefix(each[: len(each) // size * size], prompt) for each in seen), default=0)
        assert cache.prefill(prompt) == len(prompt) - min(common, len(prompt) - 1) // size * size
        seen.append(prompt)


def test_people_share_nothing_and_what_is_ahead_is_counted_apart() -> None:
    keys = [PersonKey((ids(1, 2, 3, 4),), ids(1, 2, 3, 4, 5)), PersonKey((), ids(1, 2, 3, 4, 5, 6))]
    row = count_blocks([keys, keys], 2)
    assert (row.computed, row.ahead) == (2 * (1 + 2), 2 * 4)
    assert (row.share, row.share_after_first) == (1 - 6 / 22, 1 - 4 / 12)


def test_people_begin_at_places_spread_over_the_recordings() -> None:
    one, other = typing("abcdefgh\n" * 4), typing("xy = 1\n" * 6)
    people = people_of([one, other], 3, 5, BUDGET, EMBEDDED)
    assert [len(keys) for keys in people] == [5, 5, 5]
    beginning, middle, other_beginning = (keys[0].ids for keys in people)
    assert len(beginning) == len(other_beginning) < len(middle)


def test_too_many_people_for_a_recording_are_named() -> None:
    with pytest.raises(WorkError, match="no keys left for 9 people: name more, or fewer --users"):
        people_of([Trace("", [])], 9, 5, BUDGET, EMBEDDED)


def test_pauses_are_no_typing() -> None:
    slow = typing("ab", TYPING + 1)
    assert keys_a_minute([typing("a" * 121), slow]) == 123, "two a second, and two keys that took no time"
    assert keys_a_minute([slow]) == 0


def test_the_command_counts_without_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    txns = [{"time": f"2020-09-10T04:00:{number:02}.000Z", "patches": [[number, 0, "a"]]} for number in range(20)]
    path = tmp_path / "session.json"
    path.write_text(json.dumps({"startContent": "", "txns": txns}), "utf-8")
    assert main(["team", str(path), "--users", "2", "--keys", "5", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["size"] for row in figures["blocks"]] == [1, 16, 32, 128]
    assert figures["blocks"][0]["computed"] < figures["blocks"][-1]["computed"]
    assert figures["keys_a_minute"] == pytest.approx(60 * 20 / 19)
