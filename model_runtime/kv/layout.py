"""Which arrays an arena consists of: the one place that knows the shape and the format of keys and values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from model_runtime.checkpoint.config import ModelConfig
from model_runtime.checkpoint.families.layer_spec import Attention, Latent, Recurrence

FP32 = 4  # bytes
# Rows that layers which slide keep in addition to their window: for one pass, and for cuts without computing all
# again.
SLACK_ROWS = 2048
SLIDING_PASS = 1024  # most rows of a pass over them
SNAPSHOTS = 16  # places of which an arena keeps states
EXCERPT_ROWS_KEPT = 8  # as many texts apart are kept in RAM as fill an arena's excerpt rows this often
LANES = 16  # numbers that compiled code computes at once
KV_LAYOUT = 1  # of keys and values in an arena: fp32, keys rotated, the two halves of a head interleaved

Numbers = npt.NDArray[np.float32]
KeysValues = tuple[Numbers, ...]  # an array for each plane of a layout, of the same tokens


class Plane(NamedTuple):
    """One array of an arena: of each token, `width` numbers for each of `heads` of the layers that write it.

    Numbers that were multiplied by the factors of their token's place, if the decoder knows these, have the number of
    their table as `rope`, else -1. The plane of layers that slide has a `window` and keeps the last rows alone.
    """

    name: Literal["k", "v", "rotated", "latent"]
    layers: tuple[int, ...]
    heads: int
    width: int
    rope: int = -1
    window: int = 0

    @property
    def rotated(self) -> bool:
        """Whether the numbers depend on their token's place."""
        return self.rope >= 0

    @property
    def numbers(self) -> int:
        """Numbers of one token."""
        return len(self.layers) * self.heads * self.width

    def rows(self, capacity: int) -> int:
        """Return the rows of an arena for `capacity` tokens."""
        return min(capacity, self.window + SLACK_ROWS) if self.window else capacity

    def shape(self, tokens: int) -> tuple[int, int, int, int]:
        """Return the dimensions [layers, heads, tokens, width]."""
        return len(self.layers), self.heads, tokens, self.width


class PlacedPlane(NamedTuple):
    """Where a plane lies in an array of numbers, and its dimensions."""

    place: slice
    shape: tuple[int, int, int, int]


class StatePlace(NamedTuple):
    """Where a layer's state lies among the numbers of all: the inputs of its convolution, and its memory.

    Inputs are [kernel - 1, channels], the oldest token first; memory is [heads, key, value].
    """

    layer: int
    inputs: slice
    memory: slice


class LayerPlace(NamedTuple):
    """Where a layer's keys and values are: planes 2 `group` and 2 `group` + 1, there at `at`."""

    group: int
    at: int


@dataclass(frozen=True)
class KvLayout:
    """The planes of an arena, in the order of a block's bytes, the bytes of a number, and where states lie.

    `readers` are layers that read keys and values of others, each with that other one.
    """

    planes: tuple[Plane, ...]
    element: int = FP32
    states: tuple[StatePlace, ...] = ()
    readers: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, config: ModelConfig, element: int = FP32) -> KvLayout:
        """Return the layout of a model: two planes of each kind of layers, in the order of their first ones.

        All that slide keep rows for the longest window.
        """
        kinds: dict[tuple[Plane, Plane, int], list[int]] = {}
        longest = max(layer.window for layer in config.layers)
        for index, layer in enumerate(config.layers):
            if layer.attention is not None and layer.reads is None:
                rope = config.ropes.index(layer.attention.rope)
                pair = _planes_of(layer.attention, rope, longest if layer.window else 0)
                kinds.setdefault((*pair, layer.window), []).append(index)
        placed = [plane._replace(layers=tuple(layers)) for (*pair, _), layers in kinds.items() for plane in pair]
        readers = tuple((i, layer.reads) for i, layer in enumerate(config.layers) if layer.reads is not None)
        return cls(tuple(placed), element, _state_places(config), readers)

    @classmethod
    def keys_and_values(cls, layers: int, heads: int, width: int, element: int = FP32) -> KvLayout:
        """Return the layout of layers that are all alike: rotated keys, then values."""
        all_layers = tuple(range(layers))
        keys = Plane("k", all_layers, heads, width, rope=0)
        return cls((keys, Plane("v", all_layers, heads, width)), element)

    @property
    def token_bytes(self) -> int:
        """The bytes of one token."""
        return self.element * sum(plane.numbers for plane in self.planes)

    @cached_property
    def window(self) -> int:
        """The longest window of layers that slide; 0 if none does."""
        return max((plane.window for plane in self.planes), default=0)

    @cached_property
    def places(self) -> dict[int, LayerPlace]:
        """Where the keys and values that each layer reads are, of layers that attend."""
        own = {
            layer: LayerPlace(number // 2, at)
            for number, plane in enumerate(self.planes)
            for at, layer in enumerate(plane.layers)
        }
        return own | {layer: own[other] for layer, other in self.readers}

    @cached_property
    def state_places(self) -> dict[int, StatePlace]:
        """Where the state of each layer that has one lies."""
        return {place.layer: place for place in self.states}

    @property
    def state_numbers(self) -> int:
        """Numbers of the states of all layers at one place."""
        return -(-self.states[-1].memory.stop // LANES) * LANES if self.states else 0

    @property
    def kept_states(self) -> int:
        """How many places an arena keeps states of, in addition to the live states."""
        return SNAPSHOTS if self.states else 0

    @property
    def states_bytes(self) -> int:
        """The bytes of an arena's states, live and kept."""
        return FP32 * self.state_numbers * (1 + self.kept_states)

    def arena_bytes(self, rows: int) -> int:
        """Return the bytes of an arena with `rows` rows, its states among them."""
        return self.element * sum(plane.numbers * plane.rows(rows) for plane in self.planes) + self.states_bytes

    def placed(self, tokens: int) -> list[PlacedPlane]:
        """Return where the planes of `tokens` tokens are in one array that has them one after the other."""
        return placed([(plane, tokens) for plane in self.planes])

    def placed_in_arena(self, rows: int) -> list[PlacedPlane]:
        """Return where the planes of an arena with `rows` rows are in one array."""
        return placed([(plane, plane.rows(rows)) for plane in self.planes])

    def split(self, numbers: Any, tokens: int) -> tuple[Any, ...]:
        """Return the planes of `tokens` tokens as views of an array that has them one after the other."""
        return split(numbers, self.placed(tokens))


def _planes_of(attention: Attention, rope: int, window: int) -> tuple[Plane, Plane]:
    """Return the planes of a kind of layers, without these: a rotated and an unrotated plane."""
    if isinstance(attention, Latent):
        return Plane("rotated", (), 1, attention.rotated, rope), Plane("latent", (), 1, attention.rank)
    heads, width = attention.kv_heads, attention.head_dim
    return Plane("k", (), heads, width, rope, window), Plane("v", (), heads, width, window=window)


def _state_places(config: ModelConfig) -> tuple[StatePlace, ...]:
    """Return where the states of the layers that have some lie, in their order; each begins at a whole lane."""
    places, start = list[StatePlace](), 0
    for index, layer in enumerate(config.layers):
        if (state := layer.state) is None:
            continue
        inputs = (state.kernel - 1) * state.channels
        memory = state.memory if isinstance(state, Recurrence) else 0
        middle = start + -(-inputs // LANES) * LANES
        end = middle + -(-memory // LANES) * LANES
        places.append(StatePlace(index, slice(start, start + inputs), slice(middle, middle + memory)))
        start = end
    return tuple(places)


def placed(planes: Sequence[tuple[Plane, int]]) -> list[PlacedPlane]:
    """Return where planes of these numbers of tokens are in one array that has them one after the other."""
    found, start = list[PlacedPlane](), 0
    for plane, rows in planes:
        end = start + plane.numbers * rows
        found.append(PlacedPlane(slice(start, end), plane.shape(rows)))
        start = end
    return found


def split(numbers: Any, placed: Sequence[PlacedPlane]) -> tuple[Any, ...]:
    """Return planes as views of the array that they lie in."""
    return tuple([numbers[plane.place].reshape(plane.shape) for plane in placed])


def arena_bytes(config: ModelConfig, capacity: int, element: int = FP32) -> int:
    """Return the bytes that one arena of a model takes, its excerpt rows included."""
    return KvLayout.of(config, element).arena_bytes(config.excerpt_rows + capacity)


def turned(keys: npt.NDArray[np.float32], factors: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
    """Return keys [..., tokens, head_dim] multiplied by `factors`, [head_dim / 2] or one such row for each token.

    Dimensions 2j and 2j + 1 are the parts of one number. Each product, difference and sum is a separate operation,
    so that it is rounded alike whatever instructions compute it.
    """
    real, imaginary, made = keys[..., ::2], keys[..., 1::2], np.empty_like(keys)
    made[..., ::2] = real * factors.real - imaginary * factors.imag
    made[..., 1::2] = real * factors.imag + imaginary * factors.real
    return made


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
