"""First words of names: which names are chosen, and how they are typed and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.errors import WorkError
from efim_lab.studies.first_words import first_words

TEXT = '''"""See shop.nothing here."""
import shop

cart = shop.Cart(owner="me", price =3)  # or cart.empty=1
cart.add(item=1, of=2)
if cart.total == 7: print(f"{cart.total}")
cart.\\
    clear()
number = 1.5e10
'''
DOCUMENTS = [CodeDocument("shop/main.py", TEXT)]


def chosen(kind: first_words.NameKind) -> list[str]:
    lines = first_words.choose_names(DOCUMENTS, kind, 100)
    return sorted(TEXT[line.start : line.start + 5] for line in lines)


def test_names_in_code_are_chosen_wherever_a_word_of_three_letters_begins() -> None:
    assert chosen("attribute") == ["Cart(", "add(i", "total"]
    assert chosen("keyword") == ["item=", "owner"]


def test_the_rest_of_the_line_is_not_there_and_each_name_is_typed_by_three_cursors() -> None:
    [line, *_] = first_words.choose_names(DOCUMENTS, "keyword", 100)
    assert line.typed_at(line.cursors[0])[-1:] in ("(", " ")
    assert line.after(line.cursors[1]).startswith(TEXT[line.start + 1 : line.end]), "a name may be longer"
    assert line.text_at(line.start).count("\n") == TEXT.count("\n")


def test_what_is_shown_is_counted_by_letters(folder: Path) -> None:
    found = first_words.measure(folder, DOCUMENTS, 2)
    assert list(found) == [f"{kind}, {n} letters" for kind in ("attribute", "keyword") for n in range(3)]
    assert all(len(keys) == 2 for keys in found.values())
    for keys in found.values():
        right, wrong = first_words.shares(keys)
        assert 0 <= right.value + wrong.value <= 1
    assert "| attribute, 0 letters | 2 " in first_words.table(found)


def test_data_without_names_is_refused_with_a_remedy(folder: Path) -> None:
    with pytest.raises(WorkError, match="name a folder of packages"):
        first_words.measure(folder, [CodeDocument("a.py", "x = 1\n")], 5)
