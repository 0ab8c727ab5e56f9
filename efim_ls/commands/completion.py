"""`efim-ls completion`: prints a script that completes this command line in a shell."""

from __future__ import annotations

import argparse

import shtab

from efim_ls.commands.arguments import actions, all_parsers

FILES, FOLDERS = ("FILE", "FILE:LINE:COLUMN"), ("DIR", "FOLDER", "MODEL")  # as arguments are named


def show(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print the script for a parser."""
    for each in all_parsers(parser):
        # Some shells show its first line next to the command's name.
        each.description = " ".join((each.description or "").split()).partition(". ")[0]
        for action in actions(each):
            _complete_paths(action)
    print(shtab.complete(parser, shell))
    return 0


def _complete_paths(action: argparse.Action) -> None:
    if action.metavar in FILES:
        action.complete = shtab.FILE  # pyright: ignore[reportAttributeAccessIssue] - where shtab looks for it
    elif action.metavar in FOLDERS:
        action.complete = shtab.DIRECTORY  # pyright: ignore[reportAttributeAccessIssue]
