"""What llama.vim and llama.vscode send while somebody types, as their sources have it, for the texts of a session.

`python -m tests.http.sessions` writes tests/http/recorded/*.jsonl, a request on each line, for a line that is typed
into a file. llama.vim a1c8e6e, autoload/llama.vim: s:fim_ctx_local, llama#fim, s:ring_update; llama.vscode 0.0.63,
src/completion.ts and src/llama-server.ts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import efim_ls.text.lines as module

RECORDED = Path(__file__).with_name("recorded")
LINES_ABOVE, LINES_BELOW = 256, 64  # what both send by default
CHUNK = {"text": "def starts(text):\n    return [at for at in range(len(text))]\n", "filename": "starts.py"}
TIMES = ("prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second")
TIMES += ("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second")
Json = dict[str, Any]
Keys = Iterator[tuple[str, int]]  # texts, each with the cursor in it


def around(text: str, cursor: int) -> tuple[str, str, str]:
    """The lines above, the beginning of the cursor's line, and what follows, with line ends as both add them."""
    above, below = text[:cursor].split("\n"), text[cursor:].split("\n")
    lines_above, lines_below = above[:-1][-LINES_ABOVE:], below[1:][:LINES_BELOW]
    return "\n".join(lines_above) + "\n", above[-1], below[0] + "\n" + "\n".join(lines_below) + "\n"


def llama_vim(text: str, cursor: int) -> Json:
    prefix, line, suffix = around(text, cursor)
    if not (line + suffix.partition("\n")[0]).strip():  # a blank line is completed from its beginning
        line, suffix = "", "\n" + suffix.partition("\n")[2]
    return {
        "id_slot": 0,
        "input_prefix": prefix,
        "input_suffix": suffix,
        "input_extra": [{**CHUNK, "time": [1, 2]}],
        "prompt": line,
        "n_predict": 128,
        "stop": [],
        "n_indent": len(line) - len(line.lstrip()),
        "top_k": 40,
        "top_p": 0.9,
        "samplers": ["top_k", "top_p", "infill"],
        "stream": False,
        "cache_prompt": True,
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 250,
        "response_fields": ["content", *(f"timings/{name}" for name in TIMES), "truncated", "tokens_cached"],
        "model": "",
    }


def llama_vscode(text: str, cursor: int) -> Json:
    prefix, line, suffix = around(text, cursor)
    return {
        "id_slot": 0,
        "input_prefix": prefix,
        "input_suffix": suffix,
        "input_extra": [{**CHUNK, "time": 1}],
        "prompt": line.strip(" \t") and line,
        "n_predict": 128,
        "n_cmpl": 3,
        "top_k": 40,
        "top_p": 0.99,
        "stream": False,
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "n_indent": len(line) - len(line.lstrip()),
        "t_max_prompt_ms": 500,
        "t_max_predict_ms": 2500,
    }


def warming(*, vim: bool) -> Json:
    """What both send once there is other text to show: nothing is completed."""
    asked = {"id_slot": 0, "input_prefix": "", "input_suffix": "", "input_extra": [CHUNK], "prompt": ""}
    asked |= {"n_predict": 0, "samplers": [], "cache_prompt": True, "t_max_prompt_ms": 1, "t_max_predict_ms": 1}
    return asked | ({"temperature": 0.0, "stream": False, "response_fields": [""]} if vim else {})


CLIENTS: dict[str, Callable[[str, int], Json]] = {"llama_vim": llama_vim, "llama_vscode": llama_vscode}


def typed(before: str, lines: str, after: str) -> Keys:
    """Somebody types lines key by key; what indents a line comes with its line end."""
    for key in re.findall(r"\n *|[^\n]", lines):
        before += key
        yield before + after, len(before)


def session_of_a_line() -> Keys:
    source = Path(module.__file__).read_text("utf-8")
    at = source.index("def ", source.index("def ") + 1)
    return typed(source[:at], "def is_blank(line: str) -> bool:\n    return not line.strip()\n", "\n\n" + source[at:])


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    for name, made in CLIENTS.items():
        requests = [warming(vim=name == "llama_vim"), *(made(*key) for key in session_of_a_line())]
        lines = [json.dumps(each, separators=(",", ":")) for each in requests]
        (RECORDED / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
