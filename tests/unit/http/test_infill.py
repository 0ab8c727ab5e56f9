"""Prompts that clients make for other models are read back into the text around the cursor."""

from __future__ import annotations

from itertools import permutations

import pytest

from efim_ls.http.completions import around_cursor
from efim_ls.languages.table import guess_language
from model_runtime.prompt.families import FAMILIES, Family

PROMPTS = {
    "qwen": "<|fim_prefix|>before<|fim_suffix|>after<|fim_middle|>",
    "llama, with a beginning": "<s><PRE>before<SUF>after<MID>",
    "qwen, with another file": "<|file_sep|>a.py\nx\n<|fim_prefix|>before<|fim_suffix|>after<|fim_middle|>",
    "starcoder": "<fim_prefix>before<fim_suffix>after<fim_middle>",
    "deepseek": "<｜fim▁begin｜>before<｜fim▁hole｜>after<｜fim▁end｜>",
    "codellama": "<PRE>before<SUF>after<MID>",
    "codestral": "[SUFFIX]after[PREFIX]before",
    "seed-coder": "<[fim-suffix]>after<[fim-prefix]>before<[fim-middle]>",
}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_markers_are_taken_out_of_a_prompt(prompt: str) -> None:
    assert around_cursor(prompt) == ("before", "after")


QUOTING = ("x = '{}'", "# {}\nx", "\n{}\n")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("quoting", QUOTING)
def test_markers_that_a_text_quotes_are_text(family: Family, quoting: str) -> None:
    for marks in permutations(each.removeprefix("▁") for each in family.markers):
        text = quoting.format(", ".join(marks)) + "\nreturn "
        assert around_cursor(text) == (text, "")


@pytest.mark.parametrize(
    "prompt",
    ["def f(", "", "<fim_prefix>x", "a <fim_suffix> b <fim_prefix>", "<PRE>a<SUF>b<MID>c", "[PREFIX]a[SUFFIX]"],
)
def test_a_prompt_without_all_markers_is_all_before_the_cursor(prompt: str) -> None:
    assert around_cursor(prompt) == (prompt, "")


TEXTS = {
    "python": "import os\n\n\ndef main(path):\n    for name in os.listdir(path):\n        print(name)\n",
    "c": "#include <stdio.h>\n\nint main(void) {\n    printf(\"x\");\n    return 0;\n}\n",
    "cpp": "#include <vector>\n\nint total(const std::vector<int>& values) {\n    return 0;\n}\n",
    "csharp": "using System;\n\nnamespace Shop;\n\npublic class Item { public int Id { get; set; } }\n",
    "go": "package main\n\nfunc total(values []int) int {\n\tsum := 0\n\treturn sum\n}\n",
    "html": "<!DOCTYPE html>\n<html>\n<body>\n<p>text\n</body>\n</html>\n",
    "java": "package shop;\n\npublic class Item {\n    private int id;\n    public int id() {\n",
    "javascript": "import fs from 'fs';\n\nconst total = (values) => {\n  let sum = 0;\n",
    "lua": "local M = {}\n\nfunction M.total(values)\n  local sum = 0\n  return sum\nend\n",
    "php": "<?php\n$total = 0;\nforeach ($values as $value) {\n    $total += $this->of($value);\n",
    "ruby": "require 'json'\n\nclass Item\n  def total\n    values.sum\n  end\nend\n",
    "rust": "use std::fs;\n\npub fn total(values: &[i64]) -> i64 {\n    let mut sum = 0;\n    sum\n}\n",
    "shellscript": "#!/bin/sh\nif [ -z \"$1\" ]; then\n  exit 1\nfi\n",
    "typescript": "export interface Item {\n  id: number;\n  name?: string;\n}\n",
}  # fmt: skip

# From within files, where nothing is declared.
PARTS = {
    "cpp": "int Store::size(const std::string& key) const\n{\n    int size = rows_.size();\n    return size;\n}\n",
    "java": "    final Row row = new Row();\n    Map<String, Row> rows = store.rows();\n    rows.clear();\n",
    "php": "    foreach ($rows as $row) {\n        $row->save();\n        echo $_GET['name'];\n    }\n",
    "rust": "        let rows = self.read()?;\n        #[cfg(unix)]\n        let size = rows.len();\n",
    "shellscript": '        echo "$path"\n        shift\n        name="$1"\n        if test -f "$name"\n',
}


@pytest.mark.parametrize("language", PARTS)
def test_so_is_the_language_of_a_part(language: str) -> None:
    assert guess_language(PARTS[language]) == language


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_guessed_by_its_lines(language: str) -> None:
    assert guess_language(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "x = 1\n", "hello world\n", "\0\ud800"])
def test_a_text_that_tells_nothing_is_python(text: str) -> None:
    assert guess_language(text) == "python"
