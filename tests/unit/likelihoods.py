"""Suggestions with given chances, of the embedded model's tokens, put together as an engine does it."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from model_runtime.engine.output import Output, TextProbability
from model_runtime.engine.sampler import Choice, ChoiceOrigin, Sampler
from model_runtime.engine.stops import StopRule
from model_runtime.ids import Ids
from tests.unit.planning import TOKENIZER

END = TOKENIZER.vocab
SAMPLER = Sampler(TOKENIZER, None, [END])
ENDLESS = StopRule(multiline=True, indent=0, max_lines=100)


def suggestion(
    text: str, *chances: float, stub: str = "", instead: str = "~", counted: float = 0.0
) -> TextProbability:
    """Return a suggestion behind a stub whose tokens have these chances in turn, and then the first one again.

    The rest of the chances has the token with which another text would begin. Other files say the `counted` share.
    """
    output = Output(SAMPLER, stub.encode(), ENDLESS)
    other = int(TOKENIZER.encode(stub + instead)[0])
    for token, chance in zip(TOKENIZER.encode(stub + text).tolist(), cycle(chances), strict=False):
        output.append(choice({other: 1 - chance, token: chance}, token, counted))
    output.append(choice({END: 1.0}, END))
    return output.likelihood


def choice(chances: dict[int, float], token: int, counted: float = 0.0) -> Choice:
    """Return the choice of a token among some."""
    likely: Ids = np.array(sorted(chances), dtype=np.int32)
    shares = np.array([chances[each] for each in sorted(chances)], dtype=np.float32)
    gains = np.array([chances[token] * counted], dtype=np.float32)
    origin = ChoiceOrigin(shares, shares * np.float32(1 - counted), np.array([token], dtype=np.int32), gains)
    return Choice(token, chances[token], likely, shares, origin=origin)
