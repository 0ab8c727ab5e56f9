"""Parsing only what follows the lines above the cursor's finds what parsing all of the code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node, Parser

from efim_ls.completion.filters.syntax import parsed_suggestion
from efim_ls.completion.filters.syntax.parsed_suggestion import ParsedSuggestion, open_code
from efim_ls.languages.table import LANGUAGES
from efim_ls.text.grammars import grammar_of

ROOT = Path(__file__).parents[3]
SOURCES = {
    "python": Path(parsed_suggestion.__file__).read_text("utf-8"),
    "typescript": (ROOT / "editor_clients/vscode/src/extension.ts").read_text("utf-8"),
    "rust": """
/// A list that is kept in order.
impl<C: ListConfig> SkipList<C> {
    pub fn insert(&mut self, at: usize, item: &C::Item) -> Result<(), Full> {
        let mut cursor = self.head.iter().rev();
        for i in 0..self.height {
            if let Some(node) = cursor.next() {
                node.skip += match item { Item::One => 1, Item::Many(n) if *n > 2 => n + 1, _ => return Err(Full) };
            }
        }
        // The head grows last.
        self.head[at..].copy_from_slice(&[0u8; 4]);
        Ok(())
    }
}
""",
}


def shape(node: Node) -> tuple[Any, ...]:
    place = node.type, node.start_byte, node.end_byte, node.is_missing
    return (*place, [shape(child) for child in node.children])


@settings(max_examples=150)
@given(
    language=st.sampled_from(sorted(SOURCES)),
    at=st.floats(0, 1),
    above=st.integers(0, 2000),
    other=st.none() | st.floats(0, 1),
    size=st.integers(0, 120),
    more=st.sampled_from(["", ")", "}", "::", " = ", "\n", "\n\n    return"]),
    rest=st.sampled_from(["", ")", ");"]),
)
def test_it_is_parsed_as_a_whole_would_be(
    language: str, at: float, above: int, other: float | None, size: int, more: str, rest: str
) -> None:
    source, grammar = SOURCES[language], grammar_of(language)
    assert grammar is not None
    cursor = int(at * len(source))
    begin = cursor if other is None else int(other * len(source))
    before, said = source[max(0, cursor - above) : cursor], source[begin : begin + size] + more
    before = before[before.find("\n") + 1 :]
    start, code = len(before.encode()), (before + said + rest).encode()
    found = ParsedSuggestion(grammar, LANGUAGES[language].comment, code, start, start + len(said.encode()))
    whole = Parser(grammar).parse(code + open_code(code, LANGUAGES[language].comment).closers)
    assert shape(found.tree.root_node) == shape(whole.root_node)
    if found.known_end >= found.start and whole.root_node.has_error and parses(found):
        assert found.error == unaided(found).error


def parses(found: ParsedSuggestion) -> bool:
    above = found.code[: found.code.rfind(b"\n", 0, found.start) + 1]
    closed = above + open_code(above, found.comment).closers
    return not Parser(found.language).parse(closed).root_node.has_error


def unaided(found: ParsedSuggestion) -> ParsedSuggestion:
    """The same code, all of it suggested: there are no lines above."""
    whole = ParsedSuggestion(found.language, found.comment, found.code, 0, found.end)
    assert not whole._lines_above.code  # pyright: ignore[reportPrivateUsage]
    return whole
