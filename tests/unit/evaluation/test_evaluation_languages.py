"""What is shown where the model does not know the language, and how much of it is right."""

from __future__ import annotations

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.evaluation.figures.intervals import Estimate
from efim_lab.gate.evaluation.unknown_language import LanguageReport, TypedPlace, choose_places, figures, table

PLACE = TypedPlace(CodeDocument("a.go", "for x in y\nend"), "for \nend", 4, "x in y\nend")


def test_what_is_shown_is_right_if_the_text_goes_on_with_it() -> None:
    found = figures([PLACE] * 5, ["", "x in", "x in y\nend", "x in y ", "z"])
    assert (found.shown.value, found.right and found.right.value) == (0.8, 0.5)
    assert (found.characters, found.gain.value) == ((4 + 10 + 7 + 1) / 4, (4 + 10) / 5)
    nothing = figures([PLACE], [""])
    assert (nothing.right, nothing.characters, nothing.gain.value) == (None, None, 0)
    shown = table("go", 5, LanguageReport({"phrases": found, "none": nothing}, Estimate(0.5, -0.25, 1)))
    assert "| phrases" in shown and shown.endswith("a place, paired: +0.50 [-0.25, +1.00]")


def test_a_place_hides_the_rest_of_its_line_and_shows_the_file() -> None:
    text = "fn main() {\r\n    let x = 1;\r\n}\r\n"
    places = choose_places([CodeDocument("a.rs", text)], 3)
    assert len(places) == 3
    for place in places:
        assert place.document.path == "a.rs"
        before, after = place.text[: place.cursor], place.text[place.cursor :]
        assert before + place.after == text.replace("\r\n", "\n")
        assert after == "" or after.startswith("\n")
        assert place.after[0] != "\n"
