"""Prompts that a client has already made for some model: the texts around the cursor are taken out of them."""

from __future__ import annotations

from model_runtime.prompt.families import FAMILIES, Family

SPACE_SIGN = "▁"  # which SentencePiece puts in place of a space; clients write the marker without it


BEGINNINGS = ("<s>", "<bos>", "<｜begin▁of▁sentence｜>", "<|endoftext|>")  # that templates put before everything


def around_cursor(prompt: str) -> tuple[str, str]:
    """Return the text before the cursor and the one after it; a prompt that is no template's is all before it."""
    for family in FAMILIES:
        if (found := _around(prompt, family)) is not None:
            return found
    return prompt, ""


def _around(prompt: str, family: Family) -> tuple[str, str] | None:
    """Return the two texts if a prompt begins and ends as a family's do, in any order of the parts; else None.

    Markers elsewhere are text that quotes them. What stands before the first one is left out: other files, or what a
    template adds.
    """
    prefix, suffix, middle = (name.removeprefix(SPACE_SIGN) for name in (family.prefix, family.suffix, family.middle))
    files = (family.files.separator, family.files.repository) if family.files else ()
    if not prompt.startswith((prefix, suffix, *filter(None, files), *BEGINNINGS)) or not prompt.endswith(middle):
        return None
    head, tail, end = prompt.find(prefix), prompt.find(suffix), len(prompt) - len(middle)
    if min(head, tail) < 0 or (head < tail and not middle):
        return None
    before, after = head + len(prefix), tail + len(suffix)
    if head < tail:
        return prompt[before:tail], prompt[after:end]
    return prompt[before:end], prompt[after:head]
