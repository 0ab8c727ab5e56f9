"""Parsing only what follows the lines above the cursor's finds what parsing all of the code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node, Parser

from efim_ls.completion.filters.syntax import parsed_suggestion
from efim_ls.completion.filters.syntax.parsed_suggestion import ParsedSuggestion, open_code
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
    "java": """
package shop;

/** Rows in memory. */
public final class Store<K extends Comparable<K>> {
    private final Map<K, List<Row>> rows = new HashMap<>();

    @Override
    public Optional<Row> first(K key, Predicate<? super Row> wanted) {
        for (Row row : rows.getOrDefault(key, List.of())) {
            if (wanted.test(row) && row.size() >> 1 > 2) {
                return Optional.of(row);
            }
        }
        return Optional.empty();
    }
}
""",
    "cpp": """
#ifndef STORE_H
#define STORE_H
namespace shop {
// Rows in memory.
template <typename Key> class Store : public Base<Key> {
public:
    explicit Store(std::vector<int> rows) : rows_{std::move(rows)} {}
    int first(const Key &key) const {
#ifdef CHECKED
        if (rows_.empty()) { throw std::out_of_range("no rows"); }
#endif
        return *std::find_if(rows_.begin(), rows_.end(), [&](auto row) { return row > key; });
    }
private:
    std::vector<int> rows_;
};
}
#endif
""",
    "ruby": """
require "json"
# Rows in memory.
module Shop
  class Store < Base
    NAME = /\\A\\w+["']?\\z/.freeze
    def first(key, wanted: nil, &block)
      rows = @rows.fetch(key) { [] }
      rows.each do |row|
        next if row.nil? || !block.call(row)
        return row unless wanted
      end
      text = <<~TEXT
        isn't (here
      TEXT
      case rows
      when [] then nil
      else raise KeyError, "no #{key} in #{text}"
      end
    end
  end
end
""",
    "php": """<?php
namespace Shop;
# Rows in memory.
#[Entity]
final class Store extends Base
{
    public function first(string $key, ?callable $wanted = null): ?Row
    {
        foreach ($this->rows[$key] ?? [] as $at => $row) {
            if ($wanted === null || $wanted($row)) {
                return $row;
            }
        }
        return <<<TEXT
            isn't (here {$key}
            TEXT;
    }
}
""",
    "shellscript": """#!/bin/bash
# Shows files.
show() {
    local path=$1 count=$(( ${#1} + 1 ))
    case "$path" in
        *.txt | *.md) cat "$path" ;;
        *) echo "not a text: ${path##*/}" >&2; return 1 ;;
    esac
}
for path in "$@"; do
    if [ $# -gt 1 ] && [[ -f $path ]]; then
        show "$path" || exit
    else
        cat <<END | sort
no (file
END
    fi
done
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
    found = ParsedSuggestion(grammar, language, code, start, start + len(said.encode()))
    whole = Parser(grammar).parse(code + open_code(code, language).closers)
    assert shape(found.tree.root_node) == shape(whole.root_node)
    if found.known_end >= found.start and whole.root_node.has_error and parses(found):
        assert found.error == unaided(found).error


def parses(found: ParsedSuggestion) -> bool:
    above = found.code[: found.code.rfind(b"\n", 0, found.start) + 1]
    closed = above + open_code(above, found.language).closers
    return not Parser(found.grammar).parse(closed).root_node.has_error


def unaided(found: ParsedSuggestion) -> ParsedSuggestion:
    """The same code, all of it suggested: there are no lines above."""
    whole = ParsedSuggestion(found.grammar, found.language, found.code, 0, found.end)
    assert not whole._lines_above.code  # pyright: ignore[reportPrivateUsage]
    return whole
