"""The suggestion before code that stands right of the cursor on its line."""

from __future__ import annotations

from efim_ls.completion.postprocess.place import Place
from model_runtime.engine.rest_of_line import is_closers, text_before_rest


def before_code(text: str, place: Place) -> str:
    """Before code, keep what the first line says before it meets that code; nothing where it never does.

    What is left does not say the code any more: this filter is for the model's own text, once.
    """
    return text if is_closers(place.rest) else text_before_rest(text, place.rest)
