"""What the commands' arguments share: mistakes in one line, numbers that are checked."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Failure(Exception):
    """A command that could not do its work; the message says why."""

    status = 1


class Mistake(Failure):
    """Something only the user can put right; the message says how."""

    status = 2


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def whole_number(least: int, text: str) -> int:
    """Read a number that is at least so large."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} up")
    return int(text)


def port(text: str) -> int:
    """Read the number of a port; 0 is any."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: choose one from 0 (any) to 65535")
    return int(text)
