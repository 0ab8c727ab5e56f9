"""Renders docs/laboratory.md from the parsers of `python -m efim_lab`."""

from __future__ import annotations

import argparse

from efim_lab.gate.reference.commands import section, sections
from efim_lab.gate.reference.files import REPOSITORY
from efim_lab.workshop.training.command import build_parser
from efim_lab.workshop.training.finetune.command import build_parser as build_tuning_parser

PAGE = REPOSITORY / "docs" / "laboratory.md"
LABORATORY = """\
# Laboratory

<!-- Written by `make docs` from the command line's parsers; do not edit. -->

Models are trained and measured in a clone, in its folder: an installed server does not contain this command line.
`python` is `.venv/bin/python` in the clone's environment: `make .venv/tests` prepares it for `eval`, `replay`, `team`
and `next-edit`, which judge a change, and `make .venv/workshop` for `bench` and `train` as well. In an environment of
your own, `pip install --editable '.[gate]'` or `'.[train]'` installs the same, and `python setup.py kernels` compiles
the kernels that train models. How the embedded model was made is in [training.md](training.md).

Exit status and errors are the same as for [`efim-ls`](commands.md).
"""


def laboratory_page(laboratory: argparse.ArgumentParser) -> str:
    """Return docs/laboratory.md: the same for the verbs of `python -m efim_lab`, with the steps of `train`."""
    program = f"{laboratory.prog} train"
    steps = sections(program, build_parser())
    tuning = section(program, build_tuning_parser(), f"{program} --base")
    return "\n".join([LABORATORY, *sections(laboratory.prog, laboratory), *steps, tuning])


def write_page(laboratory: argparse.ArgumentParser) -> None:
    """Write the page."""
    PAGE.write_text(laboratory_page(laboratory), "utf-8", newline="\n")
