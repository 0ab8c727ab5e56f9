"""The files of the repository that are rendered from the code, wholly or in part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from efim_lab.gate.reference.commands import commands_page, laboratory_page
from efim_lab.gate.reference.settings import manifest_with_settings, settings_page
from efim_ls.commands.arguments import Parser

REPOSITORY = Path(__file__).parents[3]


def rendered(laboratory: Parser) -> Mapping[Path, Callable[[str], str]]:
    """Return what each file is to be, given what it is now; `laboratory` is the parser of `python -m efim_lab`."""
    return {
        REPOSITORY / "docs" / "commands.md": lambda _: commands_page(),
        REPOSITORY / "docs" / "laboratory.md": lambda _: laboratory_page(laboratory),
        REPOSITORY / "docs" / "settings.md": lambda _: settings_page(),
        REPOSITORY / "editor_clients" / "vscode" / "package.json": manifest_with_settings,
    }


def write_files(laboratory: Parser) -> None:
    """Write each file."""
    for path, render in rendered(laboratory).items():
        path.write_text(render(path.read_text("utf-8") if path.exists() else ""), "utf-8", newline="\n")
