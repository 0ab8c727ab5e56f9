import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from efim_ls.workspace import thread
from model_runtime.engine.drafts import PassCosts
from tests.processes import daemons

# The same examples in every run, whether CI is set or not; `make explore` looks for others.
settings.register_profile(
    "repeated",
    derandomize=True,
    print_blob=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],  # which reads a clock
)
settings.register_profile("random", settings.get_profile("repeated"), derandomize=False)
settings.load_profile("repeated")

PASS_MS, ROW_MS = 0.5, 0.05  # milliseconds that a pass takes in this process, and each of its rows

CACHE = TemporaryDirectory(prefix="efim-ls-tests-")  # no test sees what its user's servers keep
os.environ["XDG_CACHE_HOME"] = CACHE.name
daemons.isolate()
gc.disable()  # until the tests are collected: what is imported meanwhile stays
thread.NICENESS = 0  # nobody types here, and an index that waits for other tests holds up its own


def pytest_configure(config: pytest.Config) -> None:
    """Keep Hypothesis from drawing constants of the modules that happen to be imported, unless it is to explore."""
    if not config.getoption("--hypothesis-profile"):
        providers.is_local_module_file = lambda path: False  # pyright: ignore[reportPrivateImportUsage]


def pytest_collection_finish() -> None:
    """Exempt imported modules and collected tests from garbage collection, which would scan them each time.

    Tests make far more objects than cycles, so the collector waits for more of them than Python's 700.
    """
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def no_daemon_stays() -> Iterator[None]:
    """Stop what the clients of a file have started: a model in memory for each would be too much for the machine."""
    yield
    daemons.stop_all()


@pytest.fixture(scope="module", autouse=True)
def passes_take_the_same_time() -> Iterator[None]:
    """Let no pass of this process be measured: the times of passes decide how wide the next ones are."""

    @contextmanager
    def timing(costs: PassCosts, rows: int) -> Iterator[None]:
        yield
        costs.record(rows, PASS_MS + rows * ROW_MS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PassCosts, "timing", timing)
        yield
