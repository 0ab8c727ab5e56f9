"""The format of a model's keys and values, and a fingerprint that distinguishes them from any other model's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.kv.layout import KvLayout

KV_LAYOUT = 1  # of keys and values in an arena: fp32, keys rotated, the two halves of a head interleaved


@dataclass(frozen=True)
class KvFormat:
    """How a model's keys and values lie in arrays of fp32.

    `rotations`, complex64 [capacity, width / 2] for each number of a plane's `rope`, are the factors of the key at
    each position, or None if unknown: dimensions 2j and 2j + 1 are the parts of one number. `fingerprint`, 32 bytes,
    differs whenever the same tokens may have different keys and values, or a different meaning. `bf16` says whether
    all numbers have that precision.
    """

    fingerprint: bytes
    layout: KvLayout
    rotations: tuple[npt.NDArray[np.complex64], ...] | None
    bf16: bool = False


def fingerprint(files: Iterable[bytes], config: ModelConfig, code: Sequence[str]) -> bytes:
    """Return a hash of all that keys and values depend on.

    `files` are the hashes of weights and tokenizer; `code` names the format of the weights and what computes with it.
    """
    facts = json.dumps([KV_LAYOUT, *code, asdict(config)], sort_keys=True).encode()
    return hashlib.sha256(b"".join([*files, facts])).digest()
