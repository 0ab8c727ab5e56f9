"""How many files of the product warm keystrokes enter, none of them of what is off, and with how many calls."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.keystrokes.entered_files import KEYS, measure

MOST_ENTERED = 61  # with the settings that everybody begins with; it goes down with the path
MOST_TYPED_THROUGH = 48  # the same of a key that is typed through, at the median
# At the median: of a key that is typed through, and from pass to pass. Today 628, and 5 more or fewer by how often
# the engine's thread looked for idle work before the next request.
MOST_CALLS, MOST_CALLS_OF_A_TOKEN = 650, 90


def of_other_files(entered: Sequence[str]) -> list[str]:
    return [each for each in entered if "excerpt" in each]


def test_a_keystroke_enters_few_files_and_none_of_what_is_off() -> None:
    measured = measure({})
    assert "model_runtime/decoder/native/decoder.py" in measured.longest, "nothing was computed"
    assert len(measured.longest) <= MOST_ENTERED and of_other_files(measured.longest) == []
    assert measured.typed_files <= MOST_TYPED_THROUGH
    assert measured.typed_calls <= MOST_CALLS and measured.token_calls <= MOST_CALLS_OF_A_TOKEN


def test_a_keystroke_enters_what_is_on() -> None:
    assert of_other_files(measure({"other_files": "text"}, KEYS[:12]).longest)
