"""The suggestion before code that stands right of the cursor on its line."""

from __future__ import annotations

from efim_ls.completion.postprocess.place import Place
from model_runtime.engine.closers import is_closers
from model_runtime.engine.meeting import until


def before_code(text: str, place: Place) -> str:
    """Before code, keep what the first line says before it meets that code; nothing where it never does.

    What is left does not say the code any more: this filter is for the model's own text, once.
    """
    return text if is_closers(place.rest) else until(text, place.rest)
