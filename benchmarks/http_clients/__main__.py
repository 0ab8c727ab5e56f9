"""Prompt tokens that a request of llama.vim and llama.vscode costs over HTTP, here and in llama.cpp's server.

python -m benchmarks.http_clients
python -m benchmarks.http_clients --clients llama_vim --model FOLDER --llama-cpp http://127.0.0.1:8012

Both type the same lines in the middle of files of the standard library. A real `efim-ls serve --http` answers and
reports the tokens that each request waited for. llama.cpp's tokens are counted: of each of its prompts for `/infill`,
in the same tokens, all behind the beginning that it shares with the prompt before, as its slot keeps that. With the
address of a llama.cpp server that has the same model, that server is asked, too; then the number of answers that
begin with the rest of the typed line is printed for both.
"""

from __future__ import annotations

import argparse
import asyncio.queues
import json
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import httpx2

from benchmarks.keystrokes.first_token import Infill
from benchmarks.table import show
from efim_lab.gate.replay.report import percentile
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.ids import common_prefix
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.http.server import serving
from tests.http.sessions import CLIENTS, Json, typed

FILES: tuple[ModuleType, ...] = (asyncio.queues, json.decoder, textwrap)
TYPED = 8  # lines in each file
HEADER = ("client", "server", "mean", "p50", "p95")
Row = tuple[object, ...]


class Key(NamedTuple):
    """What a client sends at a key, and the rest of the line that is being typed."""

    request: Json
    rest: str


class Answered(NamedTuple):
    """Prompt tokens that a server computed for a request, and whether it said the rest of the line."""

    tokens: int
    is_right: bool


def sessions(client: str) -> Iterator[list[Key]]:
    """Yield what a client sends while lines in the middle of each file are typed that are not there yet."""
    for file in FILES:
        lines = Path(file.__file__ or "").read_text("utf-8").splitlines(keepends=True)
        begin = next(at for at in range(len(lines) // 2, len(lines)) if lines[at].strip())
        written = "\n" + "".join(lines[begin : begin + TYPED]).rstrip("\n")
        above, below = "".join(lines[:begin]).rstrip("\n"), "\n" + "".join(lines[begin + TYPED :])
        final = above + written + below
        keys = typed(above, written, below)
        yield [Key(CLIENTS[client](text, at), final[at:].partition("\n")[0]) for text, at in keys]


def asked(post: Callable[[str, Json], Any], keys: list[Key]) -> list[Answered]:
    """Return what a server answers to each request but the first."""
    return [_answered(post("/infill", each.request), each.rest) for each in keys][1:]


def _answered(answer: Any, rest: str) -> Answered:
    told = answer[0] if isinstance(answer, list) else answer
    tokens = told["timings/prompt_n"] if "timings/prompt_n" in told else told["timings"]["prompt_n"]
    return Answered(tokens, told["content"].split("\n")[0] == rest)


def counted(infill: Infill, keys: list[Key]) -> list[int]:
    """Return what llama.cpp's server would compute for the same, at least the last token."""
    prompts = [_prompt(infill, each.request) for each in keys]
    return [len(now) - min(common_prefix(before, now), len(now) - 1) for before, now in pairwise(prompts)]


def _prompt(infill: Infill, request: Json) -> Any:
    before = request["input_prefix"] + request["prompt"]
    return infill.prompt(before + request["input_suffix"], len(before)).ids


def post_to(url: str) -> Callable[[str, Json], Any]:
    """Return a function that posts to a server and returns its answer."""
    client = httpx2.Client(timeout=60, limits=httpx2.Limits(max_keepalive_connections=0))
    return lambda path, body: client.post(url + path, json=body).raise_for_status().json()


def main() -> None:
    """Print a row for each client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=EMBEDDED, help="a folder (default: the embedded model)")
    parser.add_argument("--llama-cpp", metavar="URL", help="ask its server, which has the same model, too")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=[*CLIENTS], help="which (default: all)")
    arguments = parser.parse_args()
    options = () if arguments.model == EMBEDDED else ("--model", str(arguments.model))
    tokenizer = Tokenizer(arguments.model / "tokenizer.json")
    infill, rows, right = Infill(tokenizer, find_template(tokenizer)), list[Row](), list[Row]()
    for client in arguments.clients:
        here, there, real = list[Answered](), list[int](), list[Answered]()
        with TemporaryDirectory() as cache, serving(Path(cache), *options) as server:
            for keys in sessions(client):
                here += asked(server.post, keys)
                there += counted(infill, keys)
                real += asked(post_to(arguments.llama_cpp), keys) if arguments.llama_cpp else ()
        counts = [each.tokens for each in here], there, *([[each.tokens for each in real]] if real else ())
        figures = [(mean(each), percentile(each, 50), percentile(each, 95)) for each in counts]
        asks = ("efim-ls", "llama.cpp, counted", "llama.cpp, asked")
        rows += ((client, who, *each) for who, each in zip(asks, figures, strict=False))
        right += [(client, *(f"{mean(each.is_right for each in side):.1%}" for side in (here, real)))] if real else ()
    show("prompt tokens computed a request", HEADER, rows)
    if right:
        show("answers that begin with the rest of the line", ("client", "efim-ls", "llama.cpp"), right)


if __name__ == "__main__":
    main()
