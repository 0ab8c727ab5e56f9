"""Why there is no suggestion, in a sentence for people: what happened, and what they can do."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from efim_ls.request import Costs, Reason

# Names in braces are figures that come with the reason.
SENTENCES: dict[Reason, str] = {
    "disabled": "suggestions are switched off by the setting 'enabled': set it to true to have them",
    "workspace off": "suggestions are off in this workspace by {pattern!r} in the setting 'disabled_workspaces': "
    "take it out to have them",
    "language off": "suggestions are off for the language {language!r} by the setting 'disabled_languages': "
    "take it out to have them",
    "file off": "suggestions are off for this file by {pattern!r} in the setting 'disabled_files': "
    "take it out to have them",
    "secret file": "the name of this file or of a folder above it says that it holds secrets, so nothing is computed "
    "from its text: should it hold none, give it another name",
    "file too large": "this file has {size:,} characters, and by the setting 'max_file_kib' those above {most:,} get "
    "no suggestions: raise it to have them",
    "loading": "the model is being loaded: suggestions come once it is ready",
    "no model": "there is no model: {cause}",
    "unknown document": "the editor has not told the server of this document: open it again",
    "binary text": "the text around the cursor holds NUL characters, so it is no text that a model could complete: "
    "open it in another encoding should it be text",
    "line too long": "the lines around the cursor are too long for what the model can read at once: break them",
    "low confidence": "the model held its suggestion {confidence:.0%} likely, and by the setting 'min_confidence' "
    "those below {least:.0%} are not shown while typing or in a menu: ask for ghost text by a key, or lower the "
    "setting",
    "empty": "the model expects nothing more at this place: type on, and it is asked again",
    "duplicate": "what the model suggested stands already before or after the cursor: type on, and it is asked again",
    "no fit": "what the model suggested does not fit the text around the cursor: type on, and it is asked again",
    "superseded": "a newer request for this document came before the answer: its answer counts",
    "cancelled": "the editor took its request back before the answer: type on, and it asks again",
    "error": "computing the suggestion failed: the server's log tells where",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request gets no suggestion: for programs, and a sentence for people."""

    reason: Reason
    why: str


def refusal(reason: Reason, **figures: object) -> Refusal:
    """Return the refusal for a reason, with its figures in the sentence."""
    return Refusal(reason, SENTENCES[reason].format(**figures))


def as_dict(off: Refusal | None) -> dict[str, object]:
    """Return a refusal, or that there is none, as plain values."""
    return asdict(off) if off else {"reason": None, "why": None}


def explain_refusal(off: Refusal) -> dict[str, object]:
    """Return what explains a request that would not reach the model."""
    parts = dict.fromkeys(("prompt", "head", "tail", "typed", "rest"), "")
    return {**parts, "costs": asdict(Costs()), **as_dict(off)}
