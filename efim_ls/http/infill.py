"""Prompts that a client has already made for some model: the texts around the cursor are taken out of them."""

from __future__ import annotations

from model_runtime.prompt.families import FAMILIES, Family

SPACE_SIGN = "▁"  # which SentencePiece puts in place of a space; clients write the marker without it


def around_cursor(prompt: str) -> tuple[str, str]:
    """Return the text before the cursor and the one after it; a prompt without markers is all before it."""
    for family in FAMILIES:
        if (found := _around(prompt, family)) is not None:
            return found
    return prompt, ""


def _around(prompt: str, family: Family) -> tuple[str, str] | None:
    """Return the two texts if a prompt has a family's markers, in any order; else None.

    What stands before the first marker is left out: other files, or what a template adds.
    """
    prefix, suffix, middle = (name.removeprefix(SPACE_SIGN) for name in (family.prefix, family.suffix, family.middle))
    head, tail = prompt.find(prefix), prompt.find(suffix)
    end = prompt.rfind(middle) if middle else len(prompt)
    if min(head, tail, end) < 0 or end < max(head, tail):
        return None
    before, after = head + len(prefix), tail + len(suffix)
    typed = prompt[end + len(middle) :]
    if head < tail:
        return prompt[before:tail] + typed, prompt[after:end]
    return prompt[before:end] + typed, prompt[after:head]
