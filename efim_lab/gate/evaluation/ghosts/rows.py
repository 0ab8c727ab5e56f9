"""Writes typed keys as JSON Lines, from which levels and filters can be fitted without asking a model again.

One object a key, in the order of typing. Its fields are the fields of `TypedKey`
(`efim_lab/gate/evaluation/typist/keys.py`, which explains them), and

    `model`       the model's name
    `begun`       the typed letters of the word at the cursor, "" without such a word
    `candidate`   the model's text at the cursor, before any filter and cut: the texts of `tokens`
    `is_new`      whether a ghost appears before this key (the rule is in `ghosts/counting.py`)
    `stays`       whether the ghost before the last key still stands
    `refuted`     how many ghosts the letters of the word at the cursor have refuted so far

`words` and `tokens` are lists of [text, probability once the text before it is right]. `shown` and `hidden` together
are the candidate after the filters; `words` are pieces of these, from which other levels are computed as in
`efim_lab/gate/evaluation/typist/levels.py`. A token's probability is its share among the tokens that fit the text
typed when the suggestion was made; if the word has been typed further since, `words` has the probability by now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_lab.gate.evaluation.ghosts.counting import ghosts, refuted_in_word
from efim_lab.gate.evaluation.places.cursors import begun_word
from efim_lab.gate.evaluation.typist.keys import TypedKey


def write_rows(path: Path, models: Mapping[str, Sequence[Sequence[TypedKey]]]) -> None:
    """Write each model's typed lines; raises WorkError."""
    rows = (row for model, lines in models.items() for line in lines for row in _rows(model, line))
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as error:
        raise WorkError(f"{path} cannot be written ({error.strerror}): check the folder, or name another") from error


def _rows(model: str, line: Sequence[TypedKey]) -> Iterator[Mapping[str, object]]:
    appearing, standing = set[int](), set[int]()
    for ghost in ghosts(line):
        first, *others = map(id, ghost.keys)
        appearing.add(first)
        standing.update(others)
    for key, refuted in zip(line, refuted_in_word(line), strict=True):
        yield (
            {"model": model}
            | asdict(key)
            | {
                "begun": begun_word(key.typed),
                "candidate": "".join(text for text, _ in key.tokens),
                "is_new": id(key) in appearing,
                "stays": id(key) in standing,
                "refuted": refuted,
            }
        )
