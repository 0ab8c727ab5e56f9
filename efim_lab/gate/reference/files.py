"""The files of the product that are rendered from its code, wholly or in part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from efim_lab.gate.reference.commands import commands_page
from efim_lab.gate.reference.settings import manifest_with_settings, settings_page

REPOSITORY = Path(__file__).parents[3]
# The new text of each file, given its text now.
RENDERED: Mapping[Path, Callable[[str], str]] = {
    REPOSITORY / "docs" / "commands.md": lambda _: commands_page(),
    REPOSITORY / "docs" / "settings.md": lambda _: settings_page(),
    REPOSITORY / "editor_clients" / "vscode" / "package.json": manifest_with_settings,
}


def write_files() -> None:
    """Write each file."""
    for path, render in RENDERED.items():
        path.write_text(render(path.read_text("utf-8") if path.exists() else ""), "utf-8", newline="\n")
