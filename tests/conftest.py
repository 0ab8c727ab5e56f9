import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests import daemons

settings.register_profile("busy machine", deadline=None)  # no test asserts a time
settings.load_profile("busy machine")

CACHE = TemporaryDirectory(prefix="efim-ls-tests-")  # no test sees what its user's servers keep
os.environ["XDG_CACHE_HOME"] = CACHE.name
daemons.isolate()


@pytest.fixture(scope="module", autouse=True)
def no_daemon_stays() -> Iterator[None]:
    """Stop what the clients of a file have started: a model in memory for each would be too much for the machine."""
    yield
    daemons.stop_all()
