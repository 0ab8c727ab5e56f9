import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

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


class OneWindow(LoadFileScheduling):
    """A file's tests in one process, and so those of all VS Code windows: two at once would wait for each other."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "windows" if PurePosixPath(file).name.startswith("test_vscode") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Let `--dist loadfile` open one window at a time."""
    return OneWindow(config, log) if config.getoption("dist") == "loadfile" else None
