"""Prompt tokens that a request of llama.vim and llama.vscode costs over HTTP, here and in llama.cpp's server.

python -m benchmarks.http_clients

Both type the same lines in the middle of files of the standard library. A real `efim-ls serve --http` answers and
tells what each request waited for. What llama.cpp would compute is counted: of each of its prompts for `/infill`, in
the same tokens, all behind what it shares at the start with the prompt before, as its slot keeps that.
"""

from __future__ import annotations

import asyncio.queues
import json
import textwrap
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from benchmarks.keystrokes.first_token import Infill
from benchmarks.table import show
from efim_lab.replay.report import percentile
from model_runtime.checkpoint.config import EMBEDDED
from model_runtime.ids import common_prefix
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.http.server import HttpServer, serving
from tests.http.sessions import CLIENTS, Json, typed

FILES: tuple[ModuleType, ...] = (asyncio.queues, json.decoder, textwrap)
TYPED = 8  # lines in each file
HEADER = ("client", "requests", "efim-ls: tokens a request", "p50", "p95", "llama.cpp", "p50", "p95", "times fewer")


def sessions(client: str) -> Iterator[list[Json]]:
    """Yield what a client sends while lines in the middle of each file are typed that are not there yet."""
    for file in FILES:
        lines = Path(file.__file__ or "").read_text("utf-8").splitlines(keepends=True)
        begin = next(at for at in range(len(lines) // 2, len(lines)) if lines[at].strip())
        written = "\n" + "".join(lines[begin : begin + TYPED]).rstrip("\n")
        keys = typed("".join(lines[:begin]).rstrip("\n"), written, "\n" + "".join(lines[begin + TYPED :]))
        yield [CLIENTS[client](*key) for key in keys]


def computed_here(server: HttpServer, requests: list[Json]) -> list[int]:
    """Return the prompt tokens that each request but the first cost."""
    return [_prompt_tokens(server.post("/infill", each)) for each in requests][1:]


def _prompt_tokens(answer: Any) -> int:
    told = answer[0] if isinstance(answer, list) else answer
    return told["timings/prompt_n"] if "timings/prompt_n" in told else told["timings"]["prompt_n"]


def computed_there(infill: Infill, requests: list[Json]) -> list[int]:
    """Return the same for llama.cpp's server, which computes at least the last token."""
    prompts = [_prompt(infill, each) for each in requests]
    return [len(now) - min(common_prefix(before, now), len(now) - 1) for before, now in pairwise(prompts)]


def _prompt(infill: Infill, request: Json) -> Any:
    before = request["input_prefix"] + request["prompt"]
    return infill.prompt(before + request["input_suffix"], len(before)).ids


def main() -> None:
    """Print a row for each client."""
    tokenizer = Tokenizer(EMBEDDED / "tokenizer.json")
    infill, rows = Infill(tokenizer, find_template(tokenizer)), list[tuple[object, ...]]()
    for client in CLIENTS:
        here, there = list[int](), list[int]()
        with TemporaryDirectory() as cache, serving(Path(cache)) as server:
            for requests in sessions(client):
                here += computed_here(server, requests)
                there += computed_there(infill, requests)
        figures = [(mean(each), percentile(each, 50), percentile(each, 95)) for each in (here, there)]
        rows.append((client, len(here), *chain(*figures), mean(there) / mean(here)))
    show("prompt tokens computed a request", HEADER, rows)


if __name__ == "__main__":
    main()
