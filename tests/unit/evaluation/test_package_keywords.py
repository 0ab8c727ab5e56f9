"""Keywords of calls in a package, as the laboratory's typist is told them."""

from __future__ import annotations

import pytest

from efim_lab.gate.documents import CodeDocument
from efim_lab.gate.package_keywords import PackageKeywords

SHOP = [
    CodeDocument("shop/orders.py", "def place(order, quantity=1): ...\n"),
    CodeDocument("shop/main.py", ""),
]
BANK = [CodeDocument("bank/orders.py", "def place(account): ...\n")]


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("place(", ["order", "quantity"]),
        ("place(1, quan", ["order", "quantity"]),
        ("place(order=1, q", ["quantity"]),
        ("def place(own): ...\nplace(", ["own", "order", "quantity"]),
        ("other(", None),
        ("place", None),
    ],
)
def test_a_packages_own_definitions_are_known_and_no_others(text: str, keywords: list[str] | None) -> None:
    found = PackageKeywords([SHOP, BANK]).at(SHOP[1], text, len(text))
    assert (list(found.names.kinds) if found else None) == keywords
    alone = PackageKeywords([]).at(SHOP[1], text, len(text))
    assert (list(alone.names.kinds) if alone else None) == (["own"] if "own" in text else None)
