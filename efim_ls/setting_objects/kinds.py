"""The kinds of settings that are objects: how each is checked, read and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from efim_ls.setting_objects.shared_tier import FIELDS as SHARED_TIER
from efim_ls.setting_objects.shared_tier import SharedTierOptions, read_shared_tier, shared_tier_problem
from model_runtime.remote.setting import FIELDS as ENGINE
from model_runtime.remote.setting import Field, RemoteOptions, engine_problem, read_engine


class ObjectKind(NamedTuple):
    """The fault of a value, None if it is valid; the meaning of a valid value; the names that it may have."""

    problem: Callable[[object], str | None]
    read: Callable[[Any], Any]
    fields: Mapping[str, Field]


OBJECTS: Mapping[Any, ObjectKind] = {
    RemoteOptions: ObjectKind(engine_problem, read_engine, ENGINE),
    SharedTierOptions: ObjectKind(shared_tier_problem, read_shared_tier, SHARED_TIER),
}
