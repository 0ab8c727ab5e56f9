"""Text of other files in the prompts of model families, as people read them."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from model_runtime.prompt.prompt import build
from model_runtime.prompt.template import find_template
from model_runtime.prompt.tokenizer import Tokenizer
from model_runtime.shelves.excerpts.excerpts import Excerpt, ExcerptPlace, Excerpts
from model_runtime.shelves.excerpts.layout import PlainLayout
from tests.tiny_tokenizers import write

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts" / "excerpts"
CASES = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(GOLDEN.glob("*.toml"))}


def excerpt(place: ExcerptPlace, path: str, text: str) -> Excerpt:
    return Excerpt(place, path, f"/project/{path}", (0,), text, "")


STORE = excerpt("signatures", "core/store.py", "def open_store(path): ...\n")
SHAPES = excerpt("imports", "shapes.py", "class Shape: ...\n")
SIMILAR = excerpt("similar", "web/main.ts", "const store = openStore();\n")
EXCERPTS = Excerpts((STORE,), (SHAPES,), (SIMILAR,), "project", "app.py")
HEAD, TAIL, TYPED = "import os\n\n", "\nprint(name)\n", "store = open\n"


@pytest.mark.parametrize("name", CASES)
def test_a_familys_prompt_with_other_files_is_the_drawn_one(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    tokenizer = Tokenizer(write(tmp_path / "model", case["kind"], case["markers"]))
    template = find_template(tokenizer)
    assert template.family == case["family"]
    laid = PlainLayout(tokenizer, template, 1000).lay_out(EXCERPTS)
    prompt = build(tokenizer, template, HEAD, TAIL, TYPED, context=laid)
    assert tokenizer.decode(prompt.ids) == case["prompt"]
    parts, at = defaultdict[str, str](str), 0
    for part in prompt.parts:
        parts[part.name] += tokenizer.decode(prompt.ids[at : at + len(part.ids)])
        at += len(part.ids)
    assert at == len(prompt.ids)
    assert (STORE.text in parts["signatures"]) and (SHAPES.text in parts["imports"])
    assert (SIMILAR.text in parts["similar"]) == template.shows_similar
    assert parts["head"].lstrip() == HEAD and parts["tail"].lstrip(" ") == TAIL


@pytest.mark.parametrize("name", CASES)
def test_without_excerpts_a_prompt_is_what_it_was(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    tokenizer = Tokenizer(write(tmp_path / "model", case["kind"], case["markers"]))
    template = find_template(tokenizer)
    laid = PlainLayout(tokenizer, template, 1000).lay_out(Excerpts(repository="project", path="app.py"))
    before = build(tokenizer, template, HEAD, TAIL, TYPED)
    assert build(tokenizer, template, HEAD, TAIL, TYPED, context=laid).ids.tolist() == before.ids.tolist()


def test_markers_in_the_text_of_other_files_are_text(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write(tmp_path / "model", "qwen", "qwen, files"))
    layout = PlainLayout(tokenizer, find_template(tokenizer), 1000)
    false = excerpt("similar", "<|fim_middle|>.py", "<|file_sep|>\n<|fim_suffix|>\n")
    (part,) = layout.lay_out(Excerpts(similar=(false,))).behind
    special = [i for i in part.ids.tolist() if i in tokenizer.special.values()]
    assert special == [tokenizer.special["<|file_sep|>"]]
