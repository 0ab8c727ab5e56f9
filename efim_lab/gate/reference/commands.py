"""Renders docs/commands.md from the parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from efim_ls.cli import build_parser
from efim_ls.commands.arguments import actions, subparsers

COMMANDS = """\
# Commands

<!-- Written by `make docs` from the command line's parsers; do not edit. -->

`efim-ls COMMAND --help` shows the same text, `efim-ls -V` the version; without a command, `efim-ls` serves. The exit
status is 0 on success, 2 after a mistake in arguments or files and 1 after any other failure; errors take one line on
stderr. Training and measuring models has another [command line](laboratory.md), in a clone.

Shells can complete commands, options and paths: [`efim-ls completion`](#efim-ls-completion) prints the script.
What `efim-ls models --json` prints is in [protocol.md](protocol.md#models).
"""


def commands_page() -> str:
    """Return docs/commands.md: a section for each command, with its usage, purpose and arguments."""
    return "\n".join([COMMANDS, *sections("efim-ls", build_parser())])


def sections(program: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Render the commands below a parser; a command with subcommands is replaced by these."""
    for name, command in subparsers(parser).items():
        if subparsers(command):
            yield from sections(f"{program} {name}", command)
        elif command.description:  # `train` alone has none here: it brings its own parsers
            yield section(f"{program} {name}", command)


def section(program: str, parser: argparse.ArgumentParser, title: str = "") -> str:
    """Render a command: its usage, purpose, arguments and examples."""
    arguments = _arguments(parser)
    usage = " ".join([program, *(_usage(each) for each in arguments)])
    rows = [f"| `{_escaped(_signature(each))}` | {_escaped(_meaning(each))} |" for each in arguments]
    table = ["", "| argument | meaning |", "| --- | --- |", *rows] if rows else []
    examples = _examples(parser)
    return "\n".join(
        [f"## {title or program}", "", f"    {usage}", "", parser.description or "", *table, *examples, ""]
    )


def _examples(parser: argparse.ArgumentParser) -> list[str]:
    """Return the command lines at the end of a command's help, with their heading, as Markdown."""
    heading, *lines = (parser.epilog or "").splitlines()
    return ["", f"{heading.capitalize()}", "", *(f"  {line}" for line in lines)]


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a command's positional arguments, then required options, then the others."""
    shown = [each for each in actions(parser) if each.help not in (None, argparse.SUPPRESS) and each.dest != "help"]
    return sorted(shown, key=lambda each: (bool(each.option_strings), not each.required))


def _usage(action: argparse.Action) -> str:
    optional = action.nargs == "*" or (action.option_strings and not action.required)
    return f"[{_signature(action)}]" if optional else _signature(action)


def _signature(action: argparse.Action) -> str:
    """Return an argument as a user writes it, such as `--lines N`, `ls|verify|clear` or `FOLDER ...`."""
    value = action.metavar or "|".join(map(str, action.choices or ()))
    repeated = " ..." if action.nargs == "*" else ""
    return " ".join([*action.option_strings[:1], *([str(value)] if value else [])]) + repeated


def _meaning(action: argparse.Action) -> str:
    """Return an argument's help with its default filled in, as argparse prints it."""
    return (action.help or "") % vars(action)


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
