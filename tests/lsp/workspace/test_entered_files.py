"""How many Python files of the product one warm keystroke enters, and that none of them is of what is off."""

from __future__ import annotations

from benchmarks.keystrokes.entered_files import measure

MOST_ENTERED = 69  # with the settings that everybody begins with; it goes down with the path


def of_other_files(entered: list[str]) -> list[str]:
    return [each for each in entered if "excerpt" in each]


def test_a_keystroke_enters_few_files_and_none_of_what_is_off() -> None:
    entered = measure({})
    assert "model_runtime/decoder/native/decoder.py" in entered, "nothing was computed"
    assert len(entered) <= MOST_ENTERED and of_other_files(entered) == []


def test_a_keystroke_enters_what_is_on() -> None:
    assert of_other_files(measure({"other_files": "on"}))
