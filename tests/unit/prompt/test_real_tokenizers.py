"""Published tokenizers: prompts end where their own tokens begin, and are what their publishers write."""

from __future__ import annotations

import json
from importlib.resources import as_file

import pytest
from mistral_common.protocol.fim.request import FIMRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import Tokenizer as Raw

from model_runtime.prompt.prompt import assemble, heal
from model_runtime.prompt.template import find_template
from tests.models import CODE
from tests.real_tokenizers import REAL, TEKKEN, tokenizer

LINES = [
    *CODE.splitlines()[:30:3],
    "        return ResponseError(SPACE, ITEMS['größe'], naïve)  # it's what you've said, isn't it?",
    "        // HTTPServer getXYValue A日Bc 日本Ab 12345",
    '\t\t\t"key": "value",\t\t// one\ttab',
    "\t\t} else if (!x) { /* ... */ } ();//",
]
SIGNS = "x = f(1);\n// one\n\n    /* two */ };\r\n/ three\n"
names = pytest.mark.parametrize("name", REAL)


@names
@pytest.mark.parametrize("before", ["", "x = 1;\n", "if x {\n", "\n\n"])
def test_a_prompt_ends_where_the_tokens_of_the_whole_line_begin(name: str, before: str) -> None:
    made = tokenizer(name)
    for line in LINES:
        whole = made.encode(before + line).tolist()
        for cursor in range(len(line) + 1):
            done = made.encode(heal(made, before + line[:cursor])[0]).tolist()
            assert whole[: len(done)] == done, line[:cursor]


@names
def test_a_text_and_a_file_have_the_tokens_of_the_published_tokenizer(name: str) -> None:
    content = REAL[name]() | {"normalizer": None if name != "codestral" else REAL[name]()["normalizer"]}
    published = Raw.from_str(json.dumps(content))
    for text in (CODE, SIGNS, *LINES):
        ids = published.encode(text, add_special_tokens=False).ids
        assert tokenizer(name).encode(text).tolist() == tokenizer(name).encode_file(text).tolist() == ids


def test_the_prompt_is_the_one_that_mistral_writes() -> None:
    with as_file(TEKKEN) as path:
        written = MistralTokenizer.from_file(str(path))
    made = tokenizer("tekken")
    for head, tail in (("def f():\n    return ", "\n\nf()\n"), ("x", " y"), ("", "y = 1\n"), ("# größe", "")):
        asked = written.encode_fim(FIMRequest(prompt=head, suffix=tail)).tokens
        assert assemble(made, find_template(made), head, tail, "").ids.tolist() == asked
