"""No parameter passes unchanged through more than three functions: what each needs is said where it is known."""

from __future__ import annotations

import textwrap

from tests.source.travelling import Product, product, shown

SOURCES = {
    "shop.till": """
        from shop.goods import Shelf, weigh

        class Till:
            def __init__(self, shelf: Shelf | None) -> None:
                self._shelf = shelf

            def sell(self, ware, price, cancel):
                self._charge(ware, price=price, cancel=cancel)

            def _charge(self, ware, price, cancel):
                self._shelf.take(ware, price, cancel)

        def open_at(shelf: Shelf) -> Till:
            return Till(shelf)

        def gift(shelf: Shelf, ware):
            till = open_at(shelf)
            till.sell(ware, 0, False)

        def unknown(till, ware):
            till.sell(ware, 1, False)
        """,
    "shop.goods": """
        class Shelf:
            def take(self, ware, price, cancel):
                print(price) if price else weigh(ware, cancel)

        def weigh(ware, cancel):
            again(cancel=cancel, ware=ware)

        def again(ware, cancel):
            weigh(ware, cancel)
        """,
}


def ways(changed: tuple[str, str] = ("", "")) -> list[str]:
    return [
        shown(way)
        for way in Product({name: textwrap.dedent(text).replace(*changed) for name, text in SOURCES.items()}).ways()
    ]


def test_a_way_goes_on_through_names_annotations_attributes_and_what_is_returned() -> None:
    assert ways() == [
        "ware: shop.till.gift -> shop.till.Till.sell -> shop.till.Till._charge -> shop.goods.Shelf.take -> "
        "shop.goods.weigh -> shop.goods.again"
    ]


def test_a_function_that_reads_a_parameter_or_sets_it_does_not_only_pass_it_on() -> None:
    for read in ("self._shelf.take(ware.upper(), price, cancel)", "ware = self._shelf.take(ware, price, cancel)"):
        assert ways(("self._shelf.take(ware, price, cancel)", read)) == []


def test_a_way_ends_where_what_is_called_is_not_known() -> None:
    assert ways(("Shelf | None", "Shelf | Till")) == []


def test_no_parameter_passes_unchanged_through_more_than_three_functions() -> None:
    assert list(map(shown, product().ways())) == []
