"""Which packages are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
