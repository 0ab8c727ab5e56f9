"""What tests of the repository's text share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def parsed_sources_go(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free what a file has cached: each garbage collection of the files behind it would scan the trees."""
    yield
    for each in vars(request.module).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
