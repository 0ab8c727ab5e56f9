"""What keys and values of a model look like, and a fingerprint by which those of another are told apart."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.errors import ModelError

KV_LAYOUT = 1  # of keys and values in an arena: fp32, keys rotated, the two halves of a head interleaved


@dataclass(frozen=True)
class KvFormat:
    """fp32 [layers, kv_heads, tokens, head_dim], keys and values alike.

    `rotations`, complex64 [context, head_dim / 2], are what the key at each position was multiplied by: dimensions
    2j and 2j + 1 are the parts of one number; None where that is not known. `fingerprint`, 32 bytes, is another
    wherever the same tokens may have other keys and values, or other meanings.
    """

    fingerprint: bytes
    layers: int
    kv_heads: int
    head_dim: int
    rotations: npt.NDArray[np.complex64] | None


def start_hashing(files: Iterable[Path]) -> Future[list[bytes]]:
    """Hash files (SHA-256) beside other work; it takes a second for each 1.5 GB."""
    hashed = Future[list[bytes]]()

    def work() -> None:
        try:
            hashed.set_result([_hash(path) for path in files])
        except Exception as error:  # whatever it is, it is for who waits
            hashed.set_exception(error)

    # A daemon: where the weights turn out to be damaged nobody waits, and the process must not end minutes later.
    threading.Thread(target=work, name="hashing", daemon=True).start()
    return hashed


def fingerprint(files: Iterable[bytes], config: ModelConfig, form: str) -> bytes:
    """Cover weights and tokenizer by their files' hashes, and all else that keys and values depend on."""
    facts = json.dumps([KV_LAYOUT, form, asdict(config)], sort_keys=True).encode()
    return hashlib.sha256(b"".join([*files, facts])).digest()


def _hash(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from None
