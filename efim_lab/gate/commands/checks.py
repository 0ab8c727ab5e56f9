"""Checks that several verbs make before they import what computes."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from efim_ls.commands.arguments import check_model
from efim_ls.failures import Failure, Mistake

DATA = "a heldout.jsonl written by `train corpus`, or a folder of .py files"


def whole_number(least: int, text: str) -> int:
    """Parse a whole number of at least `least`."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
    return int(text)


def check_data(path: Path) -> None:
    """Raise Mistake if code cannot be read."""
    from efim_lab.gate.documents import read_documents

    with work_errors():
        if not path.is_dir():
            read_documents(path)


def check_models(models: Sequence[str]) -> None:
    """Raise Mistake or Failure if a model cannot be read; imports no torch."""
    from model_runtime.checkpoint.hub_names import model_folder

    with work_errors():
        for name in models:
            model_folder(name)
            check_model(name)


@contextmanager
def extra_required(extra: Literal["gate", "train"]) -> Generator[None]:
    """Turn a failed import into a Failure that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = f"run pip install --editable '.[{extra}]' in the clone"
        raise Failure(f"{error.name} is not installed: {remedy}") from error


@contextmanager
def work_errors() -> Generator[None]:
    """Turn errors in the user's data or model into a Mistake or a Failure."""
    from efim_lab.gate.errors import WorkError
    from model_runtime.errors import ModelError

    try:
        yield
    except WorkError as error:
        raise Mistake(str(error)) from error
    except ModelError as error:
        raise Failure(str(error)) from error
