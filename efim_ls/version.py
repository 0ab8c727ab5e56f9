"""Versions of installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
