"""Measures suggestions typed through key by key, and accepted: how often without a pass, and how fast."""

from __future__ import annotations

import inspect
import random
import textwrap
from collections.abc import Iterator
from statistics import median

from benchmarks.table import show
from efim_lab.gate.replay.report import percentile
from efim_ls.completion.completer import Completer
from efim_ls.request import Answer, Request, Upcoming
from efim_ls.session.prefetch import accepted
from efim_ls.settings import Settings
from model_runtime.cancel import NEVER

SUGGESTIONS = 60
MODULES = (textwrap, inspect, random)  # of any Python


def measure() -> dict[str, float]:
    """Type suggestions at random cursors in the standard library, each from its first character to its last."""
    completer = Completer.load(Settings(persist=False), lambda message, percent: None)
    keys, whole = list[tuple[Answer, bool]](), list[Answer]()
    for request, suggested in _suggestions(completer):
        for typed in range(1, len(suggested)):
            answer = _ask(completer, accepted(request, suggested[:typed]))
            keys.append((answer, answer.text == suggested[typed:]))
        completer.prepare(Upcoming(accepted(request, suggested)), NEVER)
        whole.append(_ask(completer, accepted(request, suggested)))
    result = {
        "keys": len(keys),
        "without_a_pass": sum(not each.costs.passes + each.costs.recomputed for each, _ in keys) / len(keys),
        "rest_is_shown": sum(same for _, same in keys) / len(keys),
        "ms_p50": median(each.costs.ms.total for each, _ in keys),
        "ms_p95": percentile([each.costs.ms.total for each, _ in keys], 95),
        "accepted_without_prefill": sum(not each.costs.recomputed for each in whole) / len(whole),
    }
    show("suggestions typed through and accepted", ("figure", "value"), result.items())
    return result


def _suggestions(completer: Completer) -> Iterator[tuple[Request, str]]:
    chance, found = random.Random(0), 0
    texts = [inspect.getsource(module) for module in MODULES]
    while found < SUGGESTIONS:
        text = chance.choice(texts)
        cursor = chance.randrange(len(text) // 4, len(text))
        after = text.find("\n", cursor)
        request = Request("file:///typed.py", text[:cursor] + text[after:], cursor)
        if len(suggested := _ask(completer, request).text) > 1:
            found += 1
            yield request, suggested


def _ask(completer: Completer, request: Request) -> Answer:
    return completer.complete(request, NEVER)
