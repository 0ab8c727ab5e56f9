"""The reasons for no suggestion, each with a sentence for users: the cause, then what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil

from efim_ls.request import Answer, Costs, Reason

# Names in braces are figures that come with the reason.
SENTENCES: dict[Reason, str] = {
    "disabled": "suggestions are turned off: set 'enabled' to true to turn them on",
    "language off": "the entry {language!r} in 'disabled_languages' turns suggestions off for this language: "
    "remove it to turn them on",
    "file off": "the entry {pattern!r} in 'disabled_files' turns suggestions off here: remove it to turn them on",
    "secret file": "the name of this file or of a folder above it suggests secrets, so its text is never used: "
    "rename it if it holds none",
    "file too large": "this file has {size:,} characters, more than the {most:,} with which suggestions "
    "are fast enough: split it",
    "loading": "the model is still loading: suggestions start once it is ready",
    "no model": "no model is loaded: {cause}",
    "unknown document": "the editor has not opened this document on the server: open it again",
    "out of step": "the editor sent an edit of this document that cannot be understood, so its text here may be "
    "outdated: save it, or close and reopen it",
    "binary text": "the text around the cursor contains NUL characters, so it looks like binary data: "
    "if it is text, reopen it in the right encoding",
    "line too long": "the lines around the cursor do not fit into the model's context: break them into shorter ones",
    "low confidence": "the model is only {confidence}% confident here, and suggestions below {least}% are hidden: "
    "trigger ghost text by key, or set 'suggestions' to 'more'",
    "too little": "the suggestion is only a single character, punctuation, a number or a keyword, and these are "
    "hidden while you type: type it, or trigger ghost text by key",
    "unknown word": "the suggested word occurs in no known file or module, and such words are hidden while you type: "
    "type it, or trigger ghost text by key",
    "empty": "the model expects no more text here: keep typing to get the next suggestion",
    "duplicate": "the suggestion only repeated text around the cursor: keep typing to get the next one",
    "no fit": "the suggestion did not fit the text around the cursor: keep typing to get the next one",
    "no phrase": "the model does not know this language, and no phrase in this file is a likely enough continuation: "
    "keep typing, or choose a model that knows the language with the setting 'model'",
    "on request": "the model is asked only by key, since 'suggestions' is 'on request': trigger ghost text by key, "
    "or set 'suggestions' to 'balanced'",
    "no answer": "the model gives no answer: {cause}",
    "superseded": "a newer request for this document replaced this one: its answer follows",
    "cancelled": "the editor cancelled this request: keep typing to send the next one",
    "error": "computing the suggestion failed: see the server's log",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request gets no suggestion: a reason for programs and a sentence for users."""

    reason: Reason
    why: str


def refusal(reason: Reason, **figures: object) -> Refusal:
    """Return the refusal for a reason, with its figures in the sentence."""
    return Refusal(reason, SENTENCES[reason].format(**figures))


def why_empty(answer: Answer) -> Refusal | None:
    """Return why an answer has no suggestion, None if it has one.

    The confidence is rounded down and its bound up, so that the sentence never shows two equal figures.
    """
    if answer.reason is None:
        return None
    confidence, least = answer.confidence or 0.0, answer.least or 0.0
    return refusal(
        answer.reason,
        confidence=int(100 * max(0.0, confidence)),  # NaN is 0
        least=ceil(round(100 * least, 6)),
        cause=answer.cause,
    )


def as_dict(off: Refusal | None) -> dict[str, object]:
    """Return a refusal as plain values, both None without one."""
    return asdict(off) if off else {"reason": None, "why": None}


def explain_refusal(off: Refusal) -> dict[str, object]:
    """Return the explanation of a request that gets no suggestion: an empty prompt, and why."""
    return without_prompt() | as_dict(off)


def without_prompt() -> dict[str, object]:
    """Return the explanation of a request that would not reach the model: an empty prompt."""
    parts = dict.fromkeys(("prompt", "head", "tail", "typed", "rest"), "")
    return {**parts, "parts": [], "costs": asdict(Costs()), "spent": None, "notice": None, "suggestion": None}
