"""People who type: parts of recorded sessions, as the prompts that a remote engine would send for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from efim_lab.gate.errors import WorkError
from efim_lab.gate.replay import trace
from efim_lab.gate.replay.policies import Efim
from efim_lab.gate.replay.trace import Keystroke, Trace
from efim_ls.completion.planning.window import Budget
from model_runtime.ids import Ids
from model_runtime.loading.checkpoint_reader import read_checkpoint

TYPING = 5.0  # seconds between two edits, from which on a person is taken to read


class PersonKey(NamedTuple):
    """What a key asks: prompts to be computed ahead while the cursor rested before it, and its own."""

    ahead: tuple[Ids, ...]
    ids: Ids


def people_of(
    recordings: Sequence[Trace], users: int, keys: int, budget: Budget, folder: Path
) -> list[list[PersonKey]]:
    """Return the first `keys` keys of each person; they begin at places spread evenly over the recordings.

    Prompts come from this server's planner for a model in a folder. Raises WorkError if a recording has too few
    edits for its people.
    """
    _, _, tokenizer, template, _ = read_checkpoint(folder)
    room = replace(budget, markers=template.markers)
    people = list[list[PersonKey]]()
    for number, recording in enumerate(recordings):
        places = len(range(number, users, len(recordings)))
        for place in range(places):
            begin = len(recording.events) * place // places
            typed = trace.keystrokes(trace.part(recording, begin, None))
            asked = list(_asked(islice(typed, keys), Efim(tokenizer, template, room)))
            if not asked:
                raise WorkError(f"a recording has no keys left for {places} people: name more, or fewer --users")
            people.append(asked)
    return people


def _asked(typed: Iterator[Keystroke], prompts: Efim) -> Iterator[PersonKey]:
    for each in typed:
        ahead = tuple(prompt.ids for prompt in prompts.prefetched(*each.rested)) if each.rested else ()
        yield PersonKey(ahead, prompts.prompt(each.text, each.cursor).ids)


def keys_a_minute(recordings: Sequence[Trace]) -> float:
    """Return how many completions a minute of typing asks for; longer pauses than TYPING are left out."""
    keys, seconds = 0, 0.0
    for recording in recordings:
        keys += sum(trace.requests_after(event) is not None for event in recording.events)
        times = [event.time for event in recording.events]
        gaps = (after - before for before, after in zip(times, times[1:], strict=False))
        seconds += sum(gap for gap in gaps if 0 < gap <= TYPING)
    return 60 * keys / seconds if seconds else 0.0
