"""A suggestion's blocks stand as deep as the document's, whatever the levels of the model that made it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.indentation import indentation
from efim_ls.completion.filters.place import Place, place_at

OPENERS = {"python": ("if each:", "for each in rows:", "with each:"), "typescript": ("if (each) {", "each(() => {")}
widths = st.sampled_from([2, 3, 4, 8])


@st.composite
def depths(draw: st.DrawFn) -> list[int]:
    """Return how deep lines stand, in levels: after a header at most one deeper, never less than one."""
    found = [1]
    for _ in range(draw(st.integers(1, 8))):
        found.append(draw(st.integers(1, found[-1] + 1)))
    return found


@given(depths(), widths, widths, st.sampled_from(sorted(OPENERS)), st.data())
def test_a_level_is_as_wide_as_the_documents(
    deep: list[int], own: int, said: int, language: str, data: st.DataObject
) -> None:
    header = OPENERS[language][0]
    lines = [
        data.draw(st.sampled_from(OPENERS[language])) if after > before else f"call({before})"
        for before, after in zip(deep, [*deep[1:], 1], strict=True)
    ]

    def written(width: int) -> str:
        return "".join(f"\n{' ' * (own + width * depth)}{line}" for depth, line in zip(deep, lines, strict=True))

    above = f"{header}\n{' ' * own}{header}"
    place = place_at(f"{above}\n", len(above), language)
    assert indentation(written(said), place) == written(own)


@given(depths(), widths, widths, st.integers(0, 12), st.sampled_from(["", "})", "]),", "    });", "  )"]))
def test_filters_agree_before_closers(deep: list[int], own: int, said: int, blanks: int, rest: str) -> None:
    above = f"each(() => {{\n{' ' * own}if (each) {{"
    place = Place(above.rpartition("\n")[2], rest, above.partition("\n")[0] + "\n", "\n", "typescript")
    lines = (f"\n{' ' * (own + said * depth)}if (each) {{" for depth in deep)
    cleaned, emptied_by = clean("".join(lines) + "\n" + " " * blanks, place, 20)
    assert emptied_by != "no agreement" and clean(cleaned, place, 20)[0] == cleaned
