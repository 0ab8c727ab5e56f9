"""Explanations as the server answers them, for what shows them."""

from __future__ import annotations


def word(
    text: str, probability: float, shares: tuple[float, ...] = (), *places: tuple[str, int], source: str | None = None
) -> dict[str, object]:
    model, file, repository = shares or (None, None, None)
    found = [{"path": path, "line": line, "tokens": 5} for path, line in places]
    said = {"model": model, "file": file, "repository": repository}
    return {"text": text, "probability": probability, **said, "from": found, "source": source}


def part(name: str, text: str, tokens: int, cost: str) -> dict[str, object]:
    return {"part": name, "text": text, "tokens": tokens, "cost": cost}
