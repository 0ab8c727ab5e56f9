"""What each type of numbers means, and what of a GGUF file is refused by its name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.gguf import kinds
from model_runtime.checkpoint.gguf.header import read_header
from model_runtime.checkpoint.gguf.kinds import KINDS
from model_runtime.checkpoint.gguf.tensors import Blocks
from model_runtime.checkpoint.weight_files import hashed_files
from model_runtime.checkpoint.weights import read_weights
from model_runtime.decoder.native.decoder import NativeDecoder
from model_runtime.errors import ModelError
from model_runtime.kv.arena import DenseArena
from model_runtime.loading.checkpoint_reader import read_checkpoint
from tests.compiled import require_compiled
from tests.engine.gguf_files import close, gguf, write
from tests.models import Tiny, make

WIDE = Tiny(hidden=32, intermediate=32, head_dim=32, layers=1)
QUANTIZED = [number for number, kind in KINDS.items() if not kind.is_plain]


@pytest.mark.parametrize("number", KINDS)
def test_the_table_of_types_is_ggmls(number: int) -> None:
    kind, theirs = KINDS[number], gguf.GGMLQuantizationType(number)
    assert (kind.name, kind.numbers, kind.size) == (theirs.name, *gguf.GGML_QUANT_SIZES[theirs])


@pytest.mark.parametrize("number", QUANTIZED)
def test_numbers_are_widened_as_ggml_defines_them(number: int) -> None:
    """More than are widened at once, from any bytes; and a scale is where it is taken to be."""
    kind, random = KINDS[number], np.random.default_rng(number)
    content = random.integers(0, 256, (4500, kind.size * (256 // kind.numbers)), np.uint8)
    blocks = content.reshape(-1, kind.size)
    scales = random.normal(size=(len(blocks), (kind.scales.stop - kind.scales.start) // 2)).astype("<f2")
    blocks[:, kind.scales] = scales.view(np.uint8)
    found = Blocks(content.reshape(-1), kind, (4500, 256))
    wanted = gguf.dequantize(content, gguf.GGMLQuantizationType(number))
    assert found.widened().dtype == np.float32 and np.array_equal(found.widened(), wanted)
    assert np.isfinite(wanted).all() and np.isfinite(found.scales).all()
    blocks[7, kind.scales] = 0xFF
    assert not np.isfinite(gguf.dequantize(content, gguf.GGMLQuantizationType(number))).all()
    assert np.count_nonzero(~np.isfinite(found.scales)) == found.scales.shape[1]


@pytest.mark.parametrize("number", [2, 8])
def test_blocks_of_one_scale_are_exact_multiples_of_it(number: int) -> None:
    kind, random = KINDS[number], np.random.default_rng(number)
    stored = gguf.quantize(random.normal(size=(8, 64)).astype(np.float32), gguf.GGMLQuantizationType(number))
    found = Blocks(stored.reshape(-1), kind, (8, 64))
    wholes = found.widened().reshape(-1, 32) / found.scales.astype(np.float32)
    assert np.array_equal(wholes, np.rint(wholes)) and np.abs(wholes).max() > 6


@pytest.mark.parametrize("number", KINDS)
def test_rows_that_are_taken_are_those_of_the_whole(number: int) -> None:
    kind, random = KINDS[number], np.random.default_rng(number)
    content = random.integers(0, 60, 9 * 256 // kind.numbers * kind.size, np.uint8)
    found, rows = Blocks(content, kind, (9, 256)), np.array([3, 8, 3, 0])
    assert np.array_equal(found.take(rows), found.widened().take(rows, axis=0))


def test_a_compiled_decoder_keeps_a_quantized_embedding_as_it_is(tmp_path: Path) -> None:
    require_compiled()
    path = write(
        tmp_path / "tiny.gguf",
        make(tmp_path / "tiny", Tiny("qwen2", hidden=64, intermediate=96, head_dim=32)),
        "Q4_0",
    )
    weights = read_weights(path, config := read_config(path))
    quantized, plain = (NativeDecoder(config, each, "int8", 1) for each in (weights, dict(weights)))
    assert isinstance(quantized._embed, Blocks)  # pyright: ignore[reportPrivateUsage]
    ids = np.arange(40, dtype=np.int32)
    one, other = (each.forward(ids, DenseArena(config, 64)) for each in (quantized, plain))
    assert np.array_equal(one, other)


def test_weights_are_widened_when_they_are_asked_for_and_no_sooner(tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", WIDE), "Q8_0")
    asked = list[tuple[int, ...]]()
    widened = Blocks.widened
    monkeypatch.setattr(Blocks, "widened", lambda each: asked.append(each.shape) or widened(each))
    weights = read_weights(path, read_config(path))
    assert asked == [] and weights["model.layers.0.mlp.up_proj.weight"].shape == (32, 32) and asked == [(32, 32)]
    weights.release()
    assert np.array_equal(weights["model.norm.weight"], weights["model.norm.weight"])


def other(path: Path, architecture: str, **values: Any) -> Path:
    """Write a file of another kind, with a tensor."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in values.items():
        writer.add_key_value(key.replace("__", "."), value, gguf.GGUFValueType.get_type(value))
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))
    close(writer)
    return path


def test_other_architectures_are_refused_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"architecture 'phi3'; of GGUF files llama, .* read: use the model that it was"
    ):
        read_config(other(tmp_path / "a.gguf", "phi3"))
    with pytest.raises(ModelError, match=r"reads pictures \(mmproj\): name the file of the model itself"):
        read_config(other(tmp_path / "b.gguf", "clip"))
    with pytest.raises(ModelError, match=r"is an adapter, which is not read: merge it into its model"):
        read_config(other(tmp_path / "c.gguf", "llama", general__type="adapter"))
    with pytest.raises(ModelError, match=r"lacks llama\.attention\.head_count: fetch the model again"):
        read_config(other(tmp_path / "d.gguf", "llama"))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "experts": ({"llama__expert_count": 8}, "is a llama with experts, which is not read from GGUF"),
    "part of a head": ({"llama__rope__dimension_count": 16}, "rotates 16 of 32 numbers of a head"),
    "stretched": (
        {"llama__rope__scaling__type": "longrope"},
        "stretches its context by 'longrope', which is not read",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused(case: str, tmp_path: Path) -> None:
    values, message = WRONG[case]
    with pytest.raises(ModelError, match=message):
        read_config(write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", WIDE), **values))


def test_a_field_that_is_odd_is_named_with_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", Tiny(hidden=32, kv_heads=3, heads=3, head_dim=32)))
    path.write_bytes(path.read_bytes().replace(b"head_count_kv\x04\0\0\0\x03", b"head_count_kv\x04\0\0\0\x02"))
    with pytest.raises(
        ModelError, match=r"tiny\.gguf: 3 query heads cannot share 2 key heads: fetch the model again"
    ):
        read_config(path)


def test_experts_that_are_not_there_are_not_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", replace(WIDE, family="qwen3_moe")))
    number = b"expert_count\x04\0\0\0"
    path.write_bytes(path.read_bytes().replace(number + b"\x06\0\0\0", number + b"\0\0\0\x01"))
    with pytest.raises(ModelError, match=r"lacks blk\.0\.ffn_gate_exps\.weight with 16777216 experts: fetch"):
        read_config(path)


def test_heads_of_an_odd_size_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", replace(WIDE, family="qwen2", head_dim=31)))
    with pytest.raises(ModelError, match="rotates 31 of 31 numbers of a head: use another model"):
        read_config(path)


def test_a_type_that_is_not_read_is_refused_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", WIDE), "F16")
    content, name = path.read_bytes(), b"blk.0.ffn_up.weight"
    at = content.index(name) + len(name) + 4 + 2 * 8
    for number, known in ((19, "IQ1_S"), (99, "type 99")):
        path.write_bytes(content[:at] + number.to_bytes(4, "little") + content[at + 4 :])
        with pytest.raises(ModelError, match=rf"ffn_up\.weight is of {known}, and only F32, .*: use another quantiz"):
            read_weights(path, read_config(path))


def test_a_tensor_that_is_missing_or_of_another_shape_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", WIDE))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"blk.0.ffn_up.weight", b"blk.0.ffn_op.weight"))
    with pytest.raises(ModelError, match=r"lacks blk\.0\.ffn_up\.weight, which a model of its shape has: fetch"):
        read_weights(path, read_config(path))
    at = content.index(b"feed_forward_length") + len("feed_forward_length") + 4
    path.write_bytes(content[:at] + b"\x40" + content[at + 1 :])
    with pytest.raises(
        ModelError, match=r"blk\.0\.ffn_gate\.weight has shape \(32, 32\), the metadata ask for \(64, 32\)"
    ):
        read_weights(path, read_config(path))


def test_without_the_package_only_plain_numbers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "tiny", WIDE)
    paths = {kind: write(tmp_path / f"{kind}.gguf", folder, kind) for kind in ("F16", "Q8_0")}
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    assert len(read_weights(paths["F16"], read_config(paths["F16"]))) > 10
    with pytest.raises(ModelError, match=r"the Python package gguf is needed to read quantized .*: run .* gguf$"):
        read_weights(paths["Q8_0"], read_config(paths["Q8_0"]))


def test_a_folder_with_one_file_is_its_model_and_with_several_it_is_asked_which(tmp_path: Path) -> None:
    path = write(tmp_path / "here" / "coder.gguf", make(tmp_path / "tiny", WIDE))
    (tmp_path / "here" / "coder.mmproj-f16.gguf").write_bytes(b"")
    assert read_checkpoint(tmp_path / "here").config == read_config(path)
    assert hashed_files(tmp_path / "here") == hashed_files(path) == [path]
    (tmp_path / "here" / "other.gguf").write_bytes(b"")
    with pytest.raises(ModelError, match=r"here holds 2 models in GGUF: name a file, such as coder\.gguf"):
        read_checkpoint(tmp_path / "here")
    make(tmp_path / "here", WIDE)
    assert hashed_files(tmp_path / "here")[0].name == "model.safetensors"


def test_a_file_needs_no_ending(tmp_path: Path) -> None:
    """Ollama's are named by their hashes."""
    path = write(tmp_path / "tiny.gguf", make(tmp_path / "tiny", WIDE))
    assert read_checkpoint(path.rename(tmp_path / f"sha256-{'a' * 64}")).template.family == "qwen"


def test_values_have_their_types(tmp_path: Path) -> None:
    header = read_header(other(tmp_path / "a.gguf", "llama", a=[1, 2], b=["x"], c=0.5, d=True, e=[3, 3]))
    assert header.texts("b") == ["x"] and header.numbers("a").tolist() == [1, 2]
    assert (header.number("c"), header.values["d"], header.whole("e")) == (0.5, True, 3)
    for read, key, wanted in (
        (header.whole, "a", "a is 'a list of 2 different numbers', not a whole number"),
        (header.whole, "c", "c is 0.5, not a whole number"),
        (header.number, "b", "b is a list, not a number"),
        (header.text, "c", "c is 0.5, not a text"),
        (header.texts, "a", "a is a list, not a list of texts"),
        (header.numbers, "b", "b is a list, not a list of numbers"),
        (header.texts, "f", "lacks f"),
    ):
        with pytest.raises(ModelError, match=f"{wanted}: fetch the model again"):
            read(key)
    assert sys.byteorder == "little" and json.dumps(header.values["c"]) == "0.5"
