"""The servers of the remote engine's tests."""

from tests.engine.remote.conftest import server, surer

__all__ = ["server", "surer"]
