"""How many files of the product warm keystrokes enter, none of them of what is off, and with how many calls."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.keystrokes.entered_files import KEYS, measure

# At the median, with the settings that everybody begins with: the files that a key enters where the model is asked,
# and where it is typed through. Of the four keys that ask it, two or three read counts in a file of their own.
MOST_ENTERED, MOST_TYPED_THROUGH = 62, 48
# Also at the median: the calls of a key that is typed through, and those from pass to pass. Today 635 to
# 657, by how often the engine's thread looked for idle work before the next request.
MOST_CALLS, MOST_CALLS_OF_A_TOKEN = 670, 90


def of_other_files(entered: Sequence[str]) -> list[str]:
    return [each for each in entered if "excerpt" in each]


def test_a_keystroke_enters_few_files_and_none_of_what_is_off() -> None:
    measured = measure({})
    assert "model_runtime/decoder/native/decoder.py" in measured.longest, "nothing was computed"
    assert of_other_files(measured.longest) == []
    assert measured.asked_files <= MOST_ENTERED and measured.typed_files <= MOST_TYPED_THROUGH
    assert measured.typed_calls <= MOST_CALLS and measured.token_calls <= MOST_CALLS_OF_A_TOKEN


def test_a_keystroke_enters_what_is_on() -> None:
    assert of_other_files(measure({"other_files": "text"}, KEYS[:12]).longest)
