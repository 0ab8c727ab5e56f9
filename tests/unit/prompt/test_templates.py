"""Templates of model families: found in the tokenizer, overridden by a setting, and the prompts that they make."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_lab.gate.replay.policies import POLICIES, count_rows
from efim_lab.gate.replay.trace import Keystroke
from efim_ls.completion.planning.window import Budget
from model_runtime.errors import ModelError
from model_runtime.prompt.families import FAMILIES
from model_runtime.prompt.prompt import build, heal, order_parts, window_ids
from model_runtime.prompt.template import Template, find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.models import CODE, Tiny, config
from tests.tiny_tokenizers import BOS, FAMILY, FIM, KINDS, text_of, write

GOLDEN = Path(__file__).parents[2] / "golden" / "prompts" / "families"
TAIL_FIRST = ("codestral", "seed-coder")


@dataclass(frozen=True)
class Case:
    """A family's prompt, token by token; `kind` and `markers` say which tiny tokenizer stands for its own."""

    kind: str
    markers: str
    head: str
    tail: str
    typed: str
    stub: str
    prompt: list[tuple[str, int]]
    folder: str = "model"
    end_ids: Collection[int] = ()


CASES = {path.stem: Case(**tomllib.loads(path.read_text("utf-8"))) for path in sorted(GOLDEN.glob("*.toml"))}


def spelled(tokenizer: Tokenizer, ids: Collection[int]) -> list[list[Any]]:
    return [[tokenizer.decode(np.array([i], dtype=np.int32)), i] for i in ids]


def test_every_family_has_a_golden_prompt() -> None:
    assert set(CASES) == {family.name for family in FAMILIES}


@pytest.mark.parametrize("name", CASES)
def test_a_familys_prompt_is_the_drawn_one(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    tokenizer = Tokenizer(write(tmp_path / case.folder, case.kind, case.markers))
    template = find_template(tokenizer, end_ids=case.end_ids)
    made = build(tokenizer, template, case.head, case.tail, case.typed)
    assert template.family == name
    assert spelled(tokenizer, made.ids.tolist()) == case.prompt
    assert made.stub.decode() == case.stub


def of(kind: str, folder: Path, family: str | None = None) -> Tokenizer:
    return Tokenizer(write(folder, kind, family))


@pytest.mark.parametrize("kind", KINDS)
def test_a_bos_stands_first_and_once(kind: str, tmp_path: Path) -> None:
    tokenizer = of(kind, tmp_path)
    ids = build(tokenizer, find_template(tokenizer), CODE[:300], CODE[300:400], "    x").ids.tolist()
    at = [i for i, token in enumerate(ids) if token in tokenizer.bos]
    assert at == ([0] if kind in BOS else [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_the_document_between_markers(kind: str, tmp_path: Path) -> None:
    tokenizer = of(kind, tmp_path)
    template = find_template(tokenizer)
    made = build(tokenizer, template, "a = 1\n", "c = 3\n", "b = 2\n\nd")
    text = tokenizer.decode(made.ids)
    names = (*tokenizer.special, template.lead and f"{template.lead}a = 1")
    assert text.count("a = 1\n") == text.count("c = 3\n") == text.count("b = 2") == 1
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = text.replace(name, "a = 1" if name.endswith("a = 1") else "")
    assert text + made.stub.decode() in ("a = 1\nc = 3\nb = 2\n\nd", "c = 3\na = 1\nb = 2\n\nd")
    assert len(made.ids) <= template.markers + made.size("head") + made.size("tail") + made.size("typed")


@pytest.mark.parametrize("family", TAIL_FIRST)
def test_with_the_tail_first_typing_appends_only(family: str, tmp_path: Path) -> None:
    tokenizer = of("llama3", tmp_path, family)
    template, last = find_template(tokenizer), np.zeros(0, dtype=np.int32)
    for end in range(len("one = 1\ntwo = ")):
        done = heal(tokenizer, "one = 1\ntwo = "[:end])[0]
        ids = window_ids(order_parts(template, *map(tokenizer.encode, ("head\n", "tail\n", done))))
        assert ids[: len(last)].tolist() == last.tolist()
        last = ids


def test_without_a_middle_a_moved_anchor_appends_only(tmp_path: Path) -> None:
    tokenizer = of("llama3", tmp_path, "codestral")
    template, tail = find_template(tokenizer), tokenizer.encode("tail\n")
    before = window_ids(order_parts(template, tokenizer.encode("a\n"), tail, tokenizer.encode("b\nc\n")))
    after = window_ids(order_parts(template, tokenizer.encode("a\nb\n"), tail, tokenizer.encode("c\nd\n")))
    assert after[: len(before)].tolist() == before.tolist()


def test_an_enhanced_deepseek_is_told_by_its_end_its_folder_or_its_tokens(tmp_path: Path) -> None:
    plain = find_template(of("deepseek", tmp_path / "base"))
    by_end = find_template(of("deepseek", tmp_path / "base"), end_ids=(32027,))
    by_folder = find_template(of("deepseek", tmp_path / "models--x--DeepSeek-Coder-6.7B-enhance" / "snapshots"))
    assert (plain.family, by_end.family) == ("deepseek", "deepseek-efim")
    assert (by_end.prefix, by_end.suffix, by_end.middle) == (plain.prefix, plain.middle, plain.suffix)
    assert by_folder == by_end and 32027 in by_end.ends and by_end.fragments and not plain.fragments


def test_markers_that_are_no_tokens_are_spelled_where_a_family_says_so(tmp_path: Path) -> None:
    template = find_template(of("llama3", tmp_path, "none"), {"family": "llama-efim"})
    assert min(map(len, (template.prefix, template.suffix, template.middle))) > 1
    assert (
        template.markers
        == len(template.marker_ids)
        == 1 + sum(map(len, (template.prefix, template.suffix, template.middle)))
    )
    single = find_template(of("llama3", tmp_path, "starcoder"), {"family": "llama-efim"})
    assert len(single.prefix) == len(single.suffix) == len(single.middle) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_markers_and_ends_end_a_text(kind: str, tmp_path: Path) -> None:
    tokenizer = of(kind, tmp_path)
    assert find_template(tokenizer).ends == {tokenizer.special[name] for name in FIM[FAMILY[kind]]}


def test_a_user_overrides_what_was_found(tmp_path: Path) -> None:
    tokenizer = of("llama", tmp_path)
    own = {"prefix": "<PRE>", "suffix": "<SUF>", "middle": "<MID>", "order": "spm", "bos": "", "end": ["<EOT>"]}
    found, made = find_template(tokenizer), find_template(tokenizer, own)
    assert (made.prefix, made.suffix, made.middle) == (found.prefix, found.suffix, found.middle)
    assert (made.bos, made.tail_first) == ((), True)
    assert tokenizer.special["▁<EOT>"] in made.ends
    assert find_template(tokenizer, {"middle": ""}).middle == ()
    assert find_template(tokenizer, {"bos": "<|endoftext|>"}).bos == (tokenizer.special["<|endoftext|>"],)
    assert find_template(tokenizer, {"order": "efim", "end": "<|endoftext|>"}).tail_first is False


def test_a_user_names_the_markers_of_a_family_that_is_not_known(tmp_path: Path) -> None:
    tokenizer = of("qwen", tmp_path, "none")
    with pytest.raises(ModelError, match="fill-in-the-middle.*setting template"):
        find_template(tokenizer)
    made = find_template(tokenizer, {"prefix": "<|endoftext|>", "suffix": "def"})
    assert (made.family, made.prefix, made.middle) == ("own", (tokenizer.special["<|endoftext|>"],), ())
    assert tokenizer.token_bytes[made.suffix[0]] == b"def" and made.suffix[0] in made.ends


@pytest.mark.parametrize(
    "override, reason",
    [
        ({"prefix": "<no_such_token>"}, "no token '<no_such_token>'"),
        ({"end": ["<no_such_token>"]}, "no token '<no_such_token>'"),
        ({"bos": "<no_such_token>"}, "no token '<no_such_token>'"),
        ({"family": "gpt"}, "no family 'gpt': use one of .*qwen"),
        ({"order": "xyz"}, "no order 'xyz': use efim or psm or spm"),
        ({"prefx": "<PRE>"}, "'prefx': use one of .*prefix"),
        ({"prefix": 5}, "prefix is 5, not a text"),
        ({"end": 5}, "end is 5"),
        ({"end": [5]}, r"end is \[5\]"),
        ({"prefix": ""}, "no fill-in-the-middle"),
    ],
)
def test_a_wrong_override_is_refused_by_name(override: dict[str, object], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        find_template(of("qwen", tmp_path), override)


@pytest.mark.parametrize("missing", range(3))
def test_a_model_without_all_markers_is_refused(missing: int, tmp_path: Path) -> None:
    content = json.loads(text_of("starcoder", "starcoder"))
    name = FIM["starcoder"][missing]
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] != name]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="fill-in-the-middle"):
        find_template(Tokenizer(tmp_path / "tokenizer.json"))


lines = st.lists(st.sampled_from(["a = 1\n", "    b\n", "\n", "x\n", "\tdef\n"]), max_size=10).map("".join)


@pytest.mark.parametrize("kind", ["starcoder", "llama", "metaspace", "llama3"])
@pytest.mark.parametrize("policy", ["psm", "spm", "efim"])
@settings(max_examples=15)
@given(before=lines, after=lines)
def test_every_policy_stays_within_its_budget(
    policy: str, kind: str, before: str, after: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokenizer = of(kind, tmp_path_factory.getbasetemp() / f"policies-{kind}")
    template = find_template(tokenizer)
    budget = Budget(32, 8, template.markers)
    made = POLICIES[policy](tokenizer, template, budget)
    for cursor in range(0, len(before) + 1, 3):
        ids = made.prompt(before[:cursor] + after, cursor).ids
        assert len(ids) <= budget.prompt_tokens


def test_a_folder_that_only_begins_like_a_familys_is_not_its(tmp_path: Path) -> None:
    write(folder := tmp_path / "llama3.1-8b-enhance-notes", "qwen", "qwen")
    assert find_template(Tokenizer(folder / "tokenizer.json")).family == "qwen"


def test_counting_has_room_for_markers_that_are_spelled(tmp_path: Path) -> None:
    path = write(tmp_path / "llama3.1-8b-enhance", "llama3", "none")
    shape = config(Tiny(vocabulary=Tokenizer(path).vocab)) | {"eos_token_id": None}
    (path.parent / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    line = "a = 1\n"
    keys = [Keystroke(line * 9, at) for at in range(len(line) * 9 + 1)]
    counts = list(count_rows(keys, "spm", Budget(20, 8), tmp_path / "llama3.1-8b-enhance"))
    assert max(each.prompt_tokens for each in counts) > Budget(20, 8).prompt_tokens


def test_a_budget_has_room_for_the_markers() -> None:
    assert Budget(24, 8, 5).prompt_tokens == 5 + 24 + 8 + 2 * 6


def test_an_order_is_its_parts_between_markers() -> None:
    head, tail, typed = (np.array([i], dtype=np.int32) for i in (7, 8, 9))
    plain = Template((1, 2), (3,), (4,), bos=(0,))
    assert window_ids(order_parts(plain, head, tail, typed)).tolist() == [0, 1, 2, 7, 3, 8, 4, 9]
    assert plain.marker_ids == (0, 1, 2, 3, 4)
    first = Template((1, 2), (3,), (), bos=(0,), tail_first=True)
    assert window_ids(order_parts(first, head, tail, typed)).tolist() == [0, 3, 8, 1, 2, 7, 9]
    assert first.marker_ids == (0, 3, 1, 2)


@pytest.mark.parametrize("family", ["codellama", "codestral"])
def test_an_empty_head_has_no_lead(family: str, tmp_path: Path) -> None:
    """The families' own tokenizers put a space before a text, and none before an empty one."""
    tokenizer = of(CASES[family].kind, tmp_path, family)
    template = find_template(tokenizer)
    assert template.lead == " "
    made = build(tokenizer, template, "", "c = 3\n", "b = 2\n")
    tail, typed = tokenizer.encode("c = 3\n"), tokenizer.encode("b = 2\n")
    assert made.size("head") == 0
    assert made.ids.tolist() == window_ids(order_parts(template, made.ids[:0], tail, typed)).tolist()
    assert build(tokenizer, template, "a", "c = 3\n", "b = 2\n").size("head") > 0
