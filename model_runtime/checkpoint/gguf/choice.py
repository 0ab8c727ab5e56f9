"""Chooses one of the GGUF files of a repository: by a quantization's name, else the quickest here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from model_runtime.checkpoint.gguf.header import PICTURES, part_paths
from model_runtime.errors import ModelError

# Without a name: int4 and int8 keep the numbers of these as they are, and the others take the memory of int8.
PREFERRED = ("Q4_0", "Q8_0", "Q4_K_M")
MOST_NAMED = 12  # files in a message
OUTSIDE = re.compile(r"^/|\.\.|[\\:]")  # in what a server calls a file's place


def is_gguf(name: str) -> bool:
    """Return whether a repository's file is a model in GGUF or a part of one; paths that lead out of it are not."""
    return name.endswith(".gguf") and PICTURES not in name and not OUTSIDE.search(name)


def choose_file(repository: str, names: Iterable[str], quantization: str = "") -> str:
    """Return the first file of the model whose file name has a quantization, in any case.

    Without a quantization: the PREFERRED model, or the only one. ModelError lists the files if none fits.
    """
    firsts = sorted({part_paths(Path(name))[0].as_posix() for name in names if is_gguf(name)})
    for wanted in (quantization,) if quantization else PREFERRED:
        fits = re.compile(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9_])", re.IGNORECASE)
        if found := [name for name in firsts if fits.search(name)]:
            return found[0]
    if len(firsts) == 1 and not quantization:
        return firsts[0]
    listed = ", ".join([*firsts[:MOST_NAMED], *(["..."] if len(firsts) > MOST_NAMED else [])]) or "none"
    found = f"no GGUF file with {quantization} in its name" if quantization else "several GGUF files"
    raise ModelError(f"{repository} has {found} ({listed}): name the quantization of one, as in {repository}:Q4_0")
