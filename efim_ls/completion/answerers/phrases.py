"""Suggestions where the model does not know the language: phrases of the file and of others in its language.

No frame is planned, nothing goes through the model, and nothing is saved: an answer is a function of the text, of the
repository's counts and of the suggestions that are still typed through.
"""

from __future__ import annotations

from dataclasses import replace

from efim_ls.access.reasons import without_prompt
from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.answerers.costs import CostMeter
from efim_ls.completion.answerers.document_state import DocumentState
from efim_ls.completion.filters.depth import phrase_depth
from efim_ls.completion.filters.place import Place, place_at, place_of
from efim_ls.completion.filters.syntax.readable import readable
from efim_ls.completion.planning.window import SURROUNDING_CHARACTERS, surroundings
from efim_ls.completion.suggestions.explanation import suggestion
from efim_ls.completion.suggestions.place_kind import spot_of
from efim_ls.completion.suggestions.recent import Asked
from efim_ls.completion.suggestions.sure import ONLY
from efim_ls.completion.suggestions.sureness import first_word_end
from efim_ls.completion.suggestions.words import stands_nowhere, words_at
from efim_ls.languages.table import ANY
from efim_ls.request import Answer, Preset, Reason, Request, Upcoming
from efim_ls.text.lines import enclosing_line
from model_runtime.cancel import Cancel, Cancelled
from model_runtime.engine.phrases import Phrases
from model_runtime.engine.stops import stop_rule
from model_runtime.prompt.prompt import history_of
from model_runtime.prompt.tokenizer import Tokenizer

# Least probability of all that is shown: 3 of 4 are right to their end (docs/benchmarks/languages.md).
SURE = 0.5
SURER = 0.7  # the same for who wants only sure ones
ASKED = 0.1  # the same for ghost text that the user asks for by key
SHORTEST = 2  # characters: accepting one takes as many keys as typing it
LONGEST_LINE = 4000  # characters before the cursor on its line; a longer one is data


class PhraseAnswerer:
    """Answers requests from counts over the user's own texts, in any language. Used on the engine thread only."""

    languages = (ANY,)

    def __init__(self, tokenizer: Tokenizer, max_new_tokens: int, max_lines: int, sure: float = SURE) -> None:
        """Count in the tokens of a tokenizer; `sure` is the least probability of a suggestion for typing."""
        self._tokenizer = tokenizer
        self._phrases = Phrases(tokenizer)
        self._max_new_tokens, self._max_lines, self._sure = max_new_tokens, max_lines, sure

    def complete(self, document: DocumentState, asked: Asked, cancel: Cancel) -> Answer:
        """Answer a request; once `cancel()` is true, soon return it as superseded."""
        meter, request, left = CostMeter(), asked.request, asked.left
        if reason := self.refusal(request):
            return Answer("", meter.total(), reason)
        if left and not request.explicit:
            document.suggestions.renew(left)
            return Answer(left.text, meter.total(), source=left.suggestion.source)
        try:
            text, confidence, source = self._speak(request, meter, cancel)
        except Cancelled:
            return Answer("", meter.total(), "superseded")
        if len(text) < SHORTEST:
            return Answer("", meter.total(), "no phrase", confidence=confidence)
        document.suggestions.add(asked, text)
        words = ((text, confidence),) if source else ()
        return Answer(text, meter.total(), confidence=confidence, words=words, source=source)

    def prepare(self, document: DocumentState, place: Upcoming, cancel: Cancel) -> bool:
        """Return that nothing is left to do: phrases are looked for when they are asked for."""
        return True

    def explain(self, document: DocumentState, request: Request, answered: Answer | None) -> dict[str, object]:
        """Return why nothing is suggested, if so, and the last answer, `answered`, without a prompt."""
        explanation = suggestion(self._tokenizer, answered, document.answer_origin)
        return without_prompt() | {"reason": self.refusal(request), "suggestion": explanation}

    def refusal(self, request: Request) -> Reason | None:
        """Return why no phrase is looked for at a place, None if one is."""
        start, _, below = enclosing_line(request.text, request.cursor)
        if "\0" in request.text[max(0, start - SURROUNDING_CHARACTERS) : below + SURROUNDING_CHARACTERS]:
            return "binary text"
        return "line too long" if request.cursor - start > LONGEST_LINE else None

    def _least(self, level: float | Preset) -> float:
        """Return how likely a phrase must be that is shown unasked; a number can only raise that."""
        if isinstance(level, str):
            return max(self._sure, SURER) if level == "sure" else self._sure
        return max(self._sure, level)

    def _speak(self, request: Request, meter: CostMeter, cancel: Cancel) -> tuple[str, float, str]:
        """Return the cleaned suggestion, which may be empty, its probability, and its source if that is no phrase.

        Raises Cancelled.
        """
        text = request.text
        start, end, below = enclosing_line(text, request.cursor)
        for other in request.others:  # each is tokenized once, which may take milliseconds
            cancel.check()
            self._tokenizer.encode(other)
        above, after = surroundings(text, start, below)
        line, rest = text[start : request.cursor], text[request.cursor : end]
        history, stub = history_of(self._tokenizer, (*request.others, after), above, line)
        meter.lap("tokenize")
        rule = stop_rule(line, rest, request.explicit, self._max_lines)
        place = place_at(text, request.cursor, request.language, request.others)
        least = ASKED if request.explicit else self._least(request.least)
        limit, counts = self._max_new_tokens, request.counts
        phrase = self._phrases.generate(history, stub, rule, limit, least, cancel, counts)
        meter.add(new_tokens=phrase.new_tokens)
        meter.lap()
        cleaned, _ = clean(phrase_depth(phrase.text, place), place, self._max_lines)
        if request.explicit:
            cleaned = readable(cleaned, place)
        found = cleaned, phrase.confidence, ""
        if request.listed and not request.explicit:
            listed = place_of(replace(request, modules=None)).names_after
            named = replace(place, names_after=listed)
            found = _listed(cleaned, phrase.confidence, named, least)
        meter.lap("postprocess")
        return found


def _listed(text: str, confidence: float, place: Place, least: float) -> tuple[str, float, str]:
    """Return a phrase that begins with a name that is listed, else the listed name that the file has most often.

    Each with its probability, and the source of a name.
    """
    spot = spot_of(place)
    words, size = words_at(spot, place), first_word_end(text)
    if text and not stands_nowhere(spot.stub + text[:size], text[size:], spot, words, place):
        return text, confidence, ""
    if not words.longer or not words.longer[0].expected:
        return "", 0.0, ""
    word = words.only or words.longer[0]
    share = ONLY if words.only else word.times / words.times
    return (word.text[len(spot.stub) :] if share >= least else ""), share, words.source(word.text)
