"""How sure it is that a guess goes on rightly with its first word: by the model's probability, and by the file.

A logistic regression over a few facts, fitted on code that the model has not read (docs/benchmarks/quality.md). The
facts that weigh most are those that the model cannot know: whether the guessed word is among the words of the
file that begin with the typed letters, and whether there are others.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Sequence
from functools import cache
from operator import mul
from pathlib import Path
from typing import NamedTuple, cast

from efim_ls.completion.filters.place import Place
from efim_ls.completion.suggestions.place_kind import KINDS, PlaceKind, Spot
from efim_ls.completion.suggestions.words import LEAST_LETTERS, Word, Words, is_usual, stands_in_file
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.checkpoint.families.fields import read_json
from model_runtime.engine.output import TextProbability
from model_runtime.errors import ModelError

SURENESS_FILE = "sureness.json"
# What the numbers of `guess_inputs` and `word_inputs` are, in their order, as the file names them.
GUESS_INPUTS = (
    "bias", "logit of the model's probability", "agrees", "agrees, and there is no other", "one other word",
    "other words", "no such word", "stands in the file", "usual", "counted", "followed", "refuted", "letters 0",
    "letters 1", "letters", "size", "expected", "expected, and agrees", *KINDS,
)  # fmt: skip
WORD_INPUTS = (
    "bias", "logit of the model's probability", "logit of the rival's sureness", "only one", "log longer", "share",
    "log times", "nearest", "is word", "letters", "letters 2", "size", "refuted", "expected", *KINDS,
)  # fmt: skip
_FIRST_WORD = re.compile(r"\W*\w+|\W+")
_LEAST = 1e-4  # probabilities are kept this far from 0 and 1
_MOST_LETTERS, _LONGEST = 6, 12
_FARTHEST = 700.0  # a logit beyond which `exp` overflows
_WORD_CHARACTER = re.compile(r"\w")

logger = logging.getLogger(__name__)


class Facts(NamedTuple):
    """What the sureness of a guess depends on.

    `probability` is the model's for its first word, of which `size` characters come from the cursor on; `counted` is
    the share of it that comes from the workspace's files. Of the words of the file that begin as the one at the
    cursor, `letters` long, there are `longer`; `agrees` if the guess makes one of these, and `stands` if it makes
    any word of the file. `usual`: in the file nothing else follows what stands before it. `followed`: the user has
    typed a part of the guess. `refuted`: another guess at this word was wrong. `expected`: it is known which names
    may stand there.
    """

    kind: PlaceKind
    letters: int
    probability: float
    size: int
    longer: int
    agrees: bool
    stands: bool
    usual: bool
    counted: float
    followed: bool
    refuted: bool
    expected: bool


class WordFacts(NamedTuple):
    """The facts behind the sureness of a word of the file that the model does not guess.

    `model` is the model's probability of it, and `rival` the sureness of the model's own guess. `share` is the word's
    of all `longer` ones' occurrences, `times` theirs. `nearest`: no other stands nearer above the cursor. `is_word`:
    the typed letters are a word of the file themselves. `size` characters are left to type. `refuted`: a guess of the
    model at this word was wrong.
    """

    kind: PlaceKind
    letters: int
    model: float
    rival: float
    longer: int
    share: float
    times: int
    nearest: bool
    is_word: bool
    size: int
    refuted: bool
    expected: bool


def guess_facts(likelihood: TextProbability, start: int, spot: Spot, words: Words, place: Place) -> Facts:
    """Return the facts of the rest of a suggestion from its character `start` on, which is not empty."""
    text = likelihood.text[start:]
    size = first_word_end(text)
    ends = likelihood.word_ends(start)
    probability = next((end.probability for end in ends if end.at - start >= size), 0.0)
    made = spot.stub + text[:size] if _WORD_CHARACTER.match(text) else ""
    return Facts(
        kind=spot.kind,
        letters=len(spot.stub),
        probability=probability,
        size=size,
        longer=len(words.longer),
        agrees=any(word.text == made for word in words.longer),
        stands=bool(made) and stands_in_file(made, place),
        usual=is_usual(text[:size], spot, place),
        counted=likelihood.shares(start, start + size).counts,
        followed=start > 0,
        refuted=spot.refuted,
        expected=words.expected is not None,
    )


def first_word_end(text: str) -> int:
    """Return where the first word of a guess ends, with the signs before it."""
    found = _FIRST_WORD.match(text)
    return found.end() if found else 0


def word_facts(word: Word, words: Words, spot: Spot, model: float, rival: float) -> WordFacts:
    """Return the facts of a word of the file, of which the model says so much."""
    size, letters = len(word.text) - len(spot.stub), len(spot.stub)
    share, longer = max(1, word.times) / words.times, len(words.longer)
    return WordFacts(
        kind=spot.kind,
        letters=letters,
        model=model,
        rival=rival,
        longer=longer,
        share=share,
        times=words.times,
        nearest=word.nearest,
        is_word=words.is_word,
        size=size,
        refuted=spot.refuted,
        expected=word.expected,
    )


class Sureness(NamedTuple):
    """The weights of both regressions, fitted to one model's answers."""

    guess: tuple[float, ...]
    word: tuple[float, ...]

    def of_guess(self, facts: Facts) -> float:
        """Return the probability that the first word of a guess is right."""
        return _logistic(self.guess, guess_inputs(facts))

    def of_word(self, facts: WordFacts) -> float:
        """Return the probability that a word of the file is meant."""
        return _logistic(self.word, word_inputs(facts))

    def scaled(self, slope: float, shift: float) -> Sureness:
        """Return the weights that multiply the logits of guesses by a slope, and then raise them."""
        bias, *rest = (slope * weight for weight in self.guess)
        return Sureness((bias + shift, *rest), self.word)

    def to_json(self) -> str:
        """Return the text of the file that `read_sureness` reads."""
        rows = zip(("guess", "word"), (GUESS_INPUTS, WORD_INPUTS), self, strict=True)
        named = {name: dict(zip(inputs, weights, strict=True)) for name, inputs, weights in rows}
        return json.dumps(named, indent=1) + "\n"


@cache
def embedded_sureness() -> Sureness:
    """Return the weights that were fitted to the embedded model for Python; they serve models without any."""
    return read_sureness(EMBEDDED)


def read_sureness(folder: Path) -> Sureness:
    """Read the weights that were fitted to the model in a folder; ModelError if they are damaged."""
    path = folder / SURENESS_FILE
    if folder != EMBEDDED and not path.exists():
        return embedded_sureness()
    if found := _read(path):
        return found
    raise ModelError(f"{path} holds no fitted sureness: fetch the model again")


def calibrated_path(cache: Path, digest: str) -> Path:
    """Return where the weights are kept that were fitted to a model, of this digest, on the user's own code."""
    return cache / "calibrated" / f"{digest}.json"


def read_calibrated(path: Path) -> Sureness | None:
    """Read weights that were fitted on the user's own code; None if there are none, or they are damaged."""
    try:
        found = _read(path) if path.exists() else None
    except ModelError:
        found = None
    if found is None and path.exists():
        logger.warning("%s cannot be read and is ignored: run efim-ls calibrate again", path)
    return found


def _read(path: Path) -> Sureness | None:
    named = read_json(path)
    guess, word = _weights(named.get("guess"), GUESS_INPUTS), _weights(named.get("word"), WORD_INPUTS)
    return Sureness(guess, word) if guess and word else None


def _weights(named: object, inputs: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of the inputs in their order; empty if one is missing or is no number."""
    by_name = cast(dict[str, object], named) if isinstance(named, dict) else {}
    found = [value for each in inputs if type(value := by_name.get(each)) in (int, float)]
    weights = tuple(map(float, cast(list[float], found)))
    return weights if len(weights) == len(inputs) and all(map(math.isfinite, weights)) else ()


def guess_inputs(facts: Facts) -> list[float]:
    """Return the facts as the numbers that are weighed, in the order of GUESS_INPUTS."""
    return [
        1.0,
        logit(facts.probability),
        float(facts.agrees),
        float(facts.agrees and facts.longer == 1),
        float(facts.longer == 1 and not facts.agrees),
        float(facts.longer > 1 and not facts.agrees),
        float(facts.longer == 0 and facts.letters >= LEAST_LETTERS),
        float(facts.stands),
        float(facts.usual),
        facts.counted,
        float(facts.followed),
        float(facts.refuted),
        float(facts.letters == 0),
        float(facts.letters == 1),
        float(min(facts.letters, _MOST_LETTERS)),
        float(min(facts.size, _LONGEST)),
        float(facts.expected),
        float(facts.expected and facts.agrees),
        *[float(facts.kind == kind) for kind in KINDS],
    ]


def word_inputs(facts: WordFacts) -> list[float]:
    """Return the facts as the numbers that are weighed, in the order of WORD_INPUTS."""
    return [
        1.0,
        logit(facts.model),
        logit(facts.rival),
        float(facts.longer == 1),
        math.log(facts.longer),
        facts.share,
        math.log(facts.times),
        float(facts.nearest),
        float(facts.is_word),
        float(min(facts.letters, _MOST_LETTERS)),
        float(facts.letters == LEAST_LETTERS),
        float(min(facts.size, _LONGEST)),
        float(facts.refuted),
        float(facts.expected),
        *[float(facts.kind == kind) for kind in KINDS],
    ]


def logit(probability: float) -> float:
    """Return the logarithm of the odds of a probability, which is kept from 0 and 1."""
    kept = min(max(probability, _LEAST), 1 - _LEAST)
    return math.log(kept / (1 - kept))


def _logistic(weights: tuple[float, ...], inputs: list[float]) -> float:
    odds = sum(map(mul, weights, inputs))
    return 1 / (1 + math.exp(-odds)) if odds > -_FARTHEST else 0.0
