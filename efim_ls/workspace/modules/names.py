"""Which names modules and classes have, and functions take: answers from records of single modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from efim_ls.request import NameKind, Names
from efim_ls.workspace.modules.source import ANY, ClassRecord, ModuleRecord

MOST_STEPS = 64  # modules that are asked for one answer
# Bases that are no classes where they are defined, and their meanings.
STAND_INS = {"NamedTuple": "tuple", "TypedDict": "dict"}


@dataclass(frozen=True)
class Module:
    """What a module's source says, and the modules in it if it is a package."""

    record: ModuleRecord
    submodules: frozenset[str] = frozenset()


class Target(NamedTuple):
    """What an expression refers to: a module or, in one, a class or function by its dotted name."""

    module: str
    name: str = ""


class Modules:
    """Answers about modules; what `find` does not know is unknown here. Used on one thread."""

    def __init__(self, find: Callable[[str], Module | None]) -> None:
        self._find = find
        self._answers: dict[Target, Names | None] = {}

    def submodules(self, package: str) -> Names | None:
        """Return the modules in a package, None if that is unknown."""
        found = self._find(package)
        if found is None:
            return None
        is_open = found.record["open"] or not found.submodules  # a module may pass for a package, as `os` does
        kinds: dict[str, NameKind] = dict.fromkeys(sorted(found.submodules), "module")
        return Names(kinds, is_open)

    def follow(self, start: Target, path: Sequence[str]) -> Target | None:
        """Return what attributes of attributes refer to, None if that is unknown."""
        at: Target | None = start
        for name in path:
            at = self._attribute(at, name)
            if at is None:
                return None
        return at

    def attributes(self, target: Target) -> Names | None:
        """Return the names that can follow a module or class and a dot, None if that is unknown."""
        if target not in self._answers:
            self._answers[target] = self._of_class(target) if target.name else self._of_module(target.module)
        return self._answers[target]

    def keywords(self, target: Target) -> Names | None:
        """Return the keywords that a function or class takes, None if that is unknown."""
        found = self._find(target.module)
        if found is None or not target.name:
            return None
        if (function := found.record["functions"].get(target.name)) is not None:
            return _keywords(function)
        owner, _, name = target.name.rpartition(".")
        of_owner = found.record["classes"].get(owner)
        if of_owner and name in of_owner["methods"]:
            return _keywords(of_owner["methods"][name])
        if target.name not in found.record["classes"]:
            return None
        for _, each in self._line(target):
            if each is None:
                return Names({}, is_open=True)
            if "parameters" in each:
                return _keywords(each["parameters"])
        return Names({}, is_open=False)

    def _of_module(self, module: str) -> Names | None:
        found = self._find(module)
        if found is None:
            return None
        kinds, is_open = self._bound(module, {module})
        submodules: dict[str, NameKind] = dict.fromkeys(sorted(found.submodules - kinds.keys()), "module")
        return Names(kinds | submodules, is_open)

    def _bound(self, module: str, seen: set[str]) -> tuple[dict[str, NameKind], bool]:
        """Return the names that a module's source binds or takes from others by a star, and whether it is open."""
        found = self._find(module)
        if found is None:
            return {}, True
        kinds, is_open = dict(found.record["names"]), found.record["open"]
        for star in found.record["stars"]:
            if star in seen:
                continue
            if len(seen) >= MOST_STEPS:
                return kinds, True
            seen.add(star)
            more, more_open = self._bound(star, seen)
            source = self._find(star)
            exported = source.record.get("all") if source else None
            public = (name for name in more if not name.startswith("_"))
            for name in public if exported is None else exported:
                kinds.setdefault(name, more.get(name, "value"))
            is_open |= more_open and exported is None
        return kinds, is_open

    def _of_class(self, target: Target) -> Names | None:
        found = self._find(target.module)
        if found is None or target.name not in found.record["classes"]:
            return None
        kinds, is_open = dict[str, NameKind](), False
        for _, each in self._line(target):
            kinds = (each["members"] if each else {}) | kinds
            is_open |= each is None or each["open"]
        kinds.setdefault("mro", "function")
        return Names(kinds, is_open)

    def _line(self, target: Target) -> Iterator[tuple[Target, ClassRecord | None]]:
        """Yield a class and all that it inherits from, None for a base that is unknown."""
        waiting, seen = [target], {target}
        while waiting:
            at = waiting.pop(0)
            found = self._find(at.module)
            each = found.record["classes"].get(at.name) if found else None
            yield at, each
            if each and len(seen) < MOST_STEPS:
                bases = (self._base(at, base) for base in each["bases"])
                waiting = [base for base in bases if base not in seen] + waiting
                seen.update(waiting)

    def _base(self, derived: Target, base: str) -> Target:
        """Return what a base of a class refers to."""
        base = STAND_INS.get(base.rpartition(".")[2], base)
        first, *path = base.split(".")
        owner = derived.name.rpartition(".")[0]
        found = self._lookup(derived.module, f"{owner}.{first}", set()) if owner else None
        start = found or self._lookup(derived.module, first, set()) or Target("builtins", first)
        return self.follow(start, path) or Target("", base)

    def _attribute(self, owner: Target, name: str) -> Target | None:
        if not owner.name:
            return self._lookup(owner.module, name, set())
        for at, each in self._line(owner):
            found = self._find(at.module)
            if each is None or found is None:
                return None
            if name in each["methods"] or f"{at.name}.{name}" in found.record["classes"]:
                return Target(at.module, f"{at.name}.{name}")
        return None

    def _lookup(self, module: str, name: str, seen: set[tuple[str, str]]) -> Target | None:
        """Return what a name in a module refers to, None for a value or an unknown object."""
        if target := self._bound_target(module, name, seen):
            return target
        found = self._find(module)
        return Target(f"{module}.{name}") if found and name in found.submodules else None

    def _bound_target(self, module: str, name: str, seen: set[tuple[str, str]]) -> Target | None:
        """Return what a name refers to that a module's source binds, or takes from others by a star."""
        found = self._find(module)
        if found is None or (module, name) in seen or len(seen) >= MOST_STEPS:
            return None
        seen.add((module, name))
        record = found.record
        if (source := record["sources"].get(name)) and (target := self._imported(source, seen)):
            return target
        if name in record["classes"] or name in record["functions"]:
            return Target(module, name)
        if name in record["names"]:
            return None
        stars = (star for star in reversed(record["stars"]) if self._exports(star, name))  # the last one counts
        return next((target for star in stars if (target := self._bound_target(star, name, seen))), None)

    def _exports(self, module: str, name: str) -> bool:
        found = self._find(module)
        exported = found.record.get("all") if found else None
        return not name.startswith("_") if exported is None else name in exported

    def _imported(self, source: tuple[str, str], seen: set[tuple[str, str]]) -> Target | None:
        module, name = source
        return self._lookup(module, name, seen) if name else Target(module)


def _keywords(parameters: list[str]) -> Names:
    return Names({name: "value" for name in parameters if name != ANY}, is_open=ANY in parameters)
