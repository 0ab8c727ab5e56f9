"""A folder that holds no usable model: the error names what is wrong and what to do, and nothing else is raised."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from efim_ls.completion.completer import Completer
from efim_ls.request import Request
from efim_ls.settings import parse
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import ModelConfig, parse_config
from model_runtime.engine.ngrams import NGRAMS_FILE
from model_runtime.errors import ModelError
from model_runtime.loading.checkpoint_reader import read_tokenizer
from model_runtime.prompt.tokenizer import Tokenizer as ByteLevel
from tests.models import CODE, SPECIAL, Tiny, config, make, shard
from tests.sized import Sized
from tests.waiting import threads_end

REMEDY = re.compile(r"(: |; )(fetch|use|name|choose|convert|set) (the|a|an|another|one|it) ")
# Numbers that no model has, and what is not a number at all. 10**12 is left out: it would be tried.
WRONG = [0, -1, -48, 1.5, "x", "", None, True, [], [1], {}, {"a": 1}, float("nan"), float("inf"), 10**400]


def load(folder: Path) -> Completer:
    return Completer.load(Sized(model=str(folder), max_new_tokens=4), lambda stage, percent: None)


def refusal(folder: Path) -> str:
    """What loading says; fails where it loads, or raises anything but a ModelError."""
    with pytest.raises(ModelError) as caught:
        load(folder)
    return str(caught.value)


def change_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def tokenizer_of(folder: Path) -> ByteLevel:
    return ByteLevel(folder / "tokenizer.json")


def truncate(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def pickle_instead(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def pickles_instead(folder: Path) -> None:
    shard(folder)
    for path in folder.glob("*.safetensors"):
        path.rename(folder / path.name.replace("model-", "pytorch_model-").replace(".safetensors", ".bin"))
    (folder / "model.safetensors.index.json").rename(folder / "pytorch_model.bin.index.json")


def shard_elsewhere(folder: Path, name: str) -> None:
    """Let the index name a file that is there, and not where a shard belongs."""
    index(folder, lambda raw: raw["weight_map"].update({NORM: name}))
    (folder / name).parent.mkdir(exist_ok=True)
    shutil.copy(folder / SHARD, folder / name)


class Trap:
    """Unpickled, it tells on itself."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return Path.touch, (Path("unpickled"),)  # type: ignore[return-value]


def drop_markers(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("<|fim_", "<|xyz_"), encoding="utf-8")


def not_byte_level(folder: Path) -> None:
    vocabulary = {**{token: i for i, token in enumerate(SPECIAL)}, "▁x": 5, "漢": 6}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))


def index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    shard(folder)
    change_json(folder / "model.safetensors.index.json", change)


SHARD = "model-00001-of-00002.safetensors"
NORM = "model.layers.1.input_layernorm.weight"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the folder is missing": (shutil.rmtree, "not a folder here"),
    "the folder is a file": (lambda at: (shutil.rmtree(at), at.write_text("x")), "name a folder that holds a model"),
    "no config": (lambda at: (at / "config.json").unlink(), "config.json"),
    "config is no JSON": (lambda at: (at / "config.json").write_text("{'a': 1}"), "config.json"),
    "config is empty": (lambda at: (at / "config.json").write_text(""), "config.json"),
    "config is no text": (lambda at: (at / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json"),
    "config is a list": (lambda at: (at / "config.json").write_text("[1]"), "config.json"),
    "config nests too deep": (lambda at: (at / "config.json").write_text("[" * 100_000), "config.json"),
    "config is a folder": (
        lambda at: ((at / "config.json").unlink(), (at / "config.json").mkdir()),
        "config.json",
    ),
    "unknown family": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(model_type="gpt_neox")),
        "gpt_neox",
    ),
    "no family": (lambda at: change_json(at / "config.json", lambda raw: raw.pop("model_type")), "model_type"),
    "rope scaling without its factor": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(rope_scaling={"type": "linear"})),
        "factor",
    ),
    "another activation": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(hidden_act="of_tomorrow")),
        "of_tomorrow",
    ),
    "no number": (
        lambda at: change_weights(at, lambda weights: weights[NORM].fill_(float("nan"))),
        NORM,
    ),
    "numbers of 8 bits": (
        lambda at: change_weights(at, lambda weights: weights.update({NORM: weights[NORM].to(torch.float8_e4m3fn)})),
        "F8_E4M3, which is quantized",
    ),
    "whole numbers": (
        lambda at: change_weights(at, lambda weights: weights.update({NORM: weights[NORM].to(torch.int8)})),
        "I8, which is quantized",
    ),
    "missing tensor": (lambda at: change_weights(at, lambda weights: weights.pop(NORM)), NORM),
    "no biases though the family has them": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(model_type="qwen2")),
        "bias",
    ),
    "no head though it is not tied": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(tie_word_embeddings=False)),
        "lm_head.weight",
    ),
    "wrong shape": (lambda at: change_weights(at, lambda weights: weights.update({NORM: torch.ones(47)})), NORM),
    "fewer layers in the file": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(num_hidden_layers=3)),
        "model.layers.2",
    ),
    "more layers in the file": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(num_hidden_layers=1)),
        "more layers than config.json's 1",
    ),
    "weights cut off": (lambda at: truncate(at / "model.safetensors", 0.5), "model.safetensors"),
    "weights cut off in their header": (lambda at: truncate(at / "model.safetensors", 0.001), "model.safetensors"),
    "weights are empty": (lambda at: truncate(at / "model.safetensors", 0), "model.safetensors"),
    "weights are a web page": (
        lambda at: (at / "model.safetensors").write_text("<html>Not found</html>" * 9),
        "model.safetensors",
    ),
    "no weights": (lambda at: (at / "model.safetensors").unlink(), "safetensors"),
    "only a pickle": (pickle_instead, "only pytorch_model.bin, a pickle: it can hold code and is never opened"),
    "only pickles, in shards": (pickles_instead, "only pytorch_model-00001-of-00002.bin, a pickle"),
    "a shard is missing": (lambda at: (shard(at), (at / SHARD).unlink()), SHARD),
    "a shard is cut off": (lambda at: (shard(at), truncate(at / SHARD, 0.5)), SHARD),
    "a shard is in another folder": (lambda at: shard_elsewhere(at, "../x.safetensors"), "outside its folder"),
    "a shard is in a folder below": (lambda at: shard_elsewhere(at, "x/x.safetensors"), "outside its folder"),
    "a shard is anywhere": (
        lambda at: shard_elsewhere(at, str(at.parent / "x.safetensors")),
        "outside its folder",
    ),
    "a shard is a pickle": (lambda at: shard_elsewhere(at, "pytorch_model.bin"), "nothing but safetensors is read"),
    "a shard has no name": (lambda at: index(at, lambda raw: raw["weight_map"].update({NORM: 3})), "index.json"),
    "the index is damaged": (lambda at: index(at, lambda raw: raw.clear()), "index.json"),
    "the index names no shard": (lambda at: index(at, lambda raw: raw.update(weight_map={})), "model."),
    "no tokenizer": (lambda at: (at / "tokenizer.json").unlink(), "tokenizer.json"),
    "only SentencePiece's tokenizer": (
        lambda at: (at / "tokenizer.json").rename(at / "tokenizer.model"),
        "only tokenizer.model",
    ),
    "tokenizer cut off": (lambda at: truncate(at / "tokenizer.json", 0.7), "tokenizer.json"),
    "tokenizer is no tokenizer": (lambda at: (at / "tokenizer.json").write_text("{}"), "tokenizer.json"),
    "tokenizer is no text": (lambda at: (at / "tokenizer.json").write_bytes(b"\xff" * 9), "tokenizer.json"),
    "tokenizer is not byte-level": (not_byte_level, "tokenizer.json"),
    "n-grams are damaged": (lambda at: (at / "local_cache.json").write_text('{"shares": 1}'), "local_cache.json"),
    "tokenizer without infilling markers": (drop_markers, "fill-in-the-middle"),
    "tokenizer larger than the vocabulary": (
        lambda at: make(at, Tiny(vocabulary=399)),
        "another model's (the tokenizer has 400 tokens, the model 399)",
    ),
    "tokenizer far smaller than the vocabulary": (
        lambda at: make(at, Tiny(vocabulary=2000)),
        "another model's (the tokenizer has 400 tokens, the model 2000)",
    ),
    "tokenizer in which texts end at a word": (
        lambda at: change_json(at / "config.json", lambda raw: raw.update(eos_token_id=[0, 300])),
        "another model's (config.json ends texts at token 300",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_by_the_name_of_its_damage(tmp_path: Path, damage: str) -> None:
    harm, cause = DAMAGES[damage]
    folder = make(tmp_path / "model")
    harm(folder)
    assert cause in refusal(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_refusal_says_what_to_do(tmp_path: Path, damage: str) -> None:
    folder = make(tmp_path / "model")
    DAMAGES[damage][0](folder)
    assert REMEDY.search(refusal(folder))


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such files")
@pytest.mark.parametrize("kind", ["device", "pipe", "endless"])
@pytest.mark.parametrize(
    "name",
    [
        "config.json", "tokenizer.json", "tokenizer_config.json", NGRAMS_FILE, "model.safetensors",
        "model.safetensors.index.json", SHARD,
    ],
)  # fmt: skip
def test_a_file_that_is_no_file_or_has_no_end_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    if name in (SHARD, "model.safetensors.index.json"):
        shard(folder)
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "device":
        path.symlink_to(os.devnull)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 1 << 40)  # a hole, which takes no room on the disk
    told = refusal(folder)
    assert str(path) in told and REMEDY.search(told)
    of_json = "it is larger than" if name.endswith(".json") else name  # weights may be large
    assert (of_json if kind == "endless" else "it is not a regular file") in told
    threads_end("hashing")  # of a file that was refused


@pytest.mark.parametrize(("entries", "padded"), [(32_022, 32_256), (49_152, 49_152), (151_665, 152_064)])
def test_a_vocabulary_that_is_padded_as_published_ones_are_is_put_up_with(
    tmp_path: Path, entries: int, padded: int
) -> None:
    words = ("".join(letters) for letters in product("abcdefghijklmnopqrst", repeat=4))
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *islice(words, entries - len(SPECIAL))])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    shape = parse_config(config(Tiny(vocabulary=padded)))
    assert read_tokenizer(tmp_path, shape).vocab == entries
    with pytest.raises(ModelError, match="another model's"):
        read_tokenizer(tmp_path, replace(shape, vocab=entries + entries // 10 + 1024))


def test_an_undamaged_model_loads(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    shard(folder)
    assert load(folder).complete(Request("a", CODE, 300), NEVER).costs.new_tokens > 0


def test_markers_that_are_added_tokens_but_not_special_are_found(tmp_path: Path) -> None:
    """So they stand in the tokenizer.json of Qwen2.5-Coder, the model that the design is made for."""
    folder = make(tmp_path / "model")

    def demote(raw: dict[str, Any]) -> None:
        for token in raw["added_tokens"]:
            token["special"] = "fim" not in token["content"]

    change_json(folder / "tokenizer.json", demote)
    explained = load(folder).explain(Request("a", "x = 1\ny = ", 10))
    assert explained["prompt"] == "<|fim_prefix|><|fim_suffix|><|fim_middle|>x = 1\ny ="
    # In a text they are text, as special ones are.
    assert len(tokenizer_of(folder).encode("<|fim_middle|>")) > 1


def test_markers_that_the_tokenizer_does_not_tell_are_those_of_the_setting(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    drop_markers(folder)
    template, problems = parse({"template": {part: f"<|xyz_{part}|>" for part in ("prefix", "suffix", "middle")}})
    assert problems == []
    loaded = Completer.load(replace(template, model=str(folder)), lambda stage, percent: None)
    explained = loaded.explain(Request("a", "x = 1\ny = ", 10))
    assert explained["prompt"] == "<|xyz_prefix|><|xyz_suffix|><|xyz_middle|>x = 1\ny ="


def test_padding_that_a_tokenizer_was_saved_with_does_not_reach_prompts(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(folder / "tokenizer.json"))
    explained = load(folder).explain(Request("a", "x = 1\ny = ", 10))
    assert explained["prompt"] == "<|fim_prefix|><|fim_suffix|><|fim_middle|>x = 1\ny ="


def test_a_pickle_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make(tmp_path / "model")
    trap = pickle.dumps(Trap())
    for name in ("pytorch_model.bin", "model.safetensors", "training_args.bin"):
        (folder / name).write_bytes(trap)
    refusal(folder)
    assert not (tmp_path / "unpickled").exists()
    pickle.loads(trap)
    assert (tmp_path / "unpickled").exists()


FIELDS = sorted({*config(Tiny()), *config(Tiny(family="qwen2")), "rope_scaling"})
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


@settings(max_examples=100)
@given(field=st.sampled_from(FIELDS), value=values)
@example(field="rope_scaling", value="linear")
@example(field="rope_parameters", value=[1])
@example(field="num_attention_heads", value=0)
@example(field="hidden_size", value=float("inf"))
def test_whatever_a_field_of_a_config_holds_only_a_model_error_is_raised(field: str, value: object) -> None:
    raw = {**config(Tiny()), field: value}
    raw.pop("head_dim")
    try:
        assert isinstance(parse_config(raw), ModelConfig)
    except ModelError as error:
        assert str(error)


@pytest.mark.parametrize("field", [name for name in FIELDS if name not in ("architectures", "bos_token_id")])
def test_a_wrong_field_is_refused_or_without_effect_when_loading(tmp_path: Path, field: str) -> None:
    folder, raised = make(tmp_path / "model"), dict[str, str]()
    for value in WRONG:
        (folder / "config.json").write_text(json.dumps({**config(Tiny()), field: value}), encoding="utf-8")
        try:
            load(folder).complete(Request("a", CODE, 300), NEVER)
        except ModelError as error:
            assert str(error)
        except Exception as error:
            raised[repr(value)] = repr(error)
    assert raised == {}


@pytest.mark.parametrize("context", [1, 2, 7, 8, 64])
def test_a_small_context_is_refused_or_put_up_with(tmp_path: Path, context: int) -> None:
    folder = make(tmp_path / "model", Tiny(context=context))
    try:
        answer = load(folder).complete(Request("a", "x = 1\n", 3), NEVER)
    except ModelError as error:
        assert "context" in str(error)
    else:
        assert answer.reason in (None, "empty", "duplicate", "no fit", "line too long")
