"""A small warehouse: what lies in it, what is promised to customers, and what has to be ordered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


class StockError(Exception):
    """The stock does not allow what was asked for."""


@dataclass
class Item:
    """An article and how many pieces of it are here."""

    sku: str
    name: str
    unit_price: float
    quantity: int = 0
    reserved: int = 0
    reorder_level: int = 20

    @property
    def available(self) -> int:
        return self.quantity - self.reserved

    @property
    def value(self) -> float:
        return self.quantity * self.unit_price


@dataclass(frozen=True)
class Movement:
    """A change of an item's quantity and what caused it."""

    sku: str
    quantity: int
    reason: str


class Inventory:
    """All items by stock keeping unit, and a journal of every movement."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._journal: list[Movement] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def add(self, item: Item) -> None:
        if item.sku in self._items:
            raise StockError(f"{item.sku} is already in the inventory")
        self._items[item.sku] = item

    def find(self, sku: str) -> Item:
        item = self._items.get(sku)
        if item is None:
            raise StockError(f"{sku} is not in the inventory")
        return item

    def receive(self, sku: str, quantity: int) -> Item:
        item = self.find(sku)
        item.quantity += quantity
        self._journal.append(Movement(sku, quantity, "received"))
        return item

    def ship(self, sku: str, quantity: int) -> Item:
        item = self.find(sku)
        if quantity > item.available:
            raise StockError(f"only {item.available} of {sku} are available")
        item.quantity -= quantity
        self._journal.append(Movement(sku, -quantity, "shipped"))
        return item

    def reserve(self, sku: str, quantity: int) -> Item:
        item = self.find(sku)
        if quantity > item.available:
            raise StockError(f"only {item.available} of {sku} are available")
        item.reserved += quantity
        return item

    def movements(self, sku: str) -> list[Movement]:
        return [movement for movement in self._journal if movement.sku == sku]

    def to_reorder(self) -> list[Item]:
        return [item for item in self if item.available < item.reorder_level]

    def total_value(self) -> float:
        return sum(item.value for item in self)


def report(inventory: Inventory) -> str:
    lines = [f"{item.name:<20} {item.quantity:>6} {item.value:>10.2f}" for item in inventory]
    lines.append(f"{'total':<27} {inventory.total_value():>10.2f}")
    return "\n".join(lines)


def main() -> None:
    inventory = Inventory()
    inventory.add(Item("bolt-m6", "hexagon bolt M6", unit_price=0.12))
    inventory.add(Item("nut-m6", "hexagon nut M6", unit_price=0.05))
    inventory.receive("bolt-m6", 400)
    inventory.receive("nut-m6", 900)
    inventory.ship("bolt-m6", 150)
    print(report(inventory))


if __name__ == "__main__":
    main()
