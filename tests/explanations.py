"""Explanations as the server answers them, for what shows them."""

from __future__ import annotations

from typing import Any

NEW = {"frame": "new", "reused": 0, "recomputed": 12, "ms": {"total": 1.25}}
FOLDER = "/home/me/project"


def word(
    text: str, probability: float, shares: tuple[float, ...] = (), *places: tuple[str, int], source: str | None = None
) -> dict[str, object]:
    model, file, repository = shares or (None, None, None)
    found = [{"path": path, "line": line, "tokens": 5} for path, line in places]
    said = {"model": model, "file": file, "repository": repository}
    return {"text": text, "probability": probability, **said, "from": found, "source": source}


def part(name: str, text: str, tokens: int, cost: str) -> dict[str, object]:
    return {"part": name, "text": text, "tokens": tokens, "cost": cost}


EXPLAINED: dict[str, Any] = {
    "parts": [
        part("marker", "<|fim_prefix|>", 1, "kept"),
        part("head", "import os\n\n\ndef area(shape):\n    [red]return shape.width * shape.height\n", 1204, "kept"),
        part("head", "def edge(shape):\n", 6, "ahead"),
        part("marker", "<|fim_suffix|>", 1, "disk"),
        part("tail", "print(edge(shape))\n", 12, "disk"),
        part("marker", "<|fim_middle|>", 1, "recomputed"),
        part("typed", "    return ", 3, "recomputed"),
    ],
    "other_files": [
        {
            "place": "signatures", "path": "rings.py", "file": f"{FOLDER}/rings.py", "lines": (3, 4, 5),
            "why": "often used", "tokens": 1024, "cost": "kept",
        },
        {
            "place": "similar", "path": "ovals.py", "file": "/usr/lib/ovals.py", "lines": (1, 7),
            "why": "similar code", "tokens": 9, "cost": "recomputed",
        },
    ],
    "rest": ")\n",
    "reason": None,
    "why": None,
    "notice": None,
    "spent": NEW,
    "costs": NEW,
    "suggestion": {
        "shown": "shape.[red]width",
        "hidden": " *\n",
        "words": [
            word("shape", 0.93, (0.9, 0.1, 0.0)),
            word(".", 1.0, (1.0, 0.0, 0.0)),
            word("[red]width", 0.5, (0.1, 0.2, 0.7), (f"{FOLDER}/shapes/square.py", 12), ("/usr/lib/ring.py", 3)),
            word(" *", 0.25),
            word("\n", 0.05),
        ],
    },
    "next_edit": {
        "uri": f"file://{FOLDER}/a%20b.py", "line": 7, "removed": "width", "added": "<b>\n", "rule": "rename",
        "confidence": 0.9,
        "because": [
            {"uri": f"file://{FOLDER}/a%20b.py", "line": 2, "removed": "width", "added": "<b>\n"},
            {"uri": "untitled:Untitled-1", "line": None, "removed": "", "added": "x"},
        ],
    },
}  # fmt: skip
