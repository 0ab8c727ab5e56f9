"""What a layer of a model computes: its attention, its state, and its feed-forward part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

LATENT_NORM_EPS = 1e-6  # of the norms inside of attention over latents, whatever the model's other norms have
GATE_INPUTS = 16  # the first elements of a layer's normed input

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn", "none"]
Activation = Literal["silu", "gelu_tanh"]
ExpertActivation = Literal["silu", "gelu_tanh", "clamped_silu"]
Scores = Literal["softmax", "sigmoid"]
Rule = Literal["add", "correct"]
Gating = Literal["before_norm", "after_norm", "alone"]


@dataclass(frozen=True)
class Rope:
    """How queries and keys are rotated by their position.

    All angles shrink by `factor` ("linear"), or only slow ones ("llama3", "yarn", arXiv 2309.00071): those that turn
    less than `slow` times over the `original` context shrink, those that turn more than `fast` times stay, and those
    between are mixed. "dynamic" changes nothing within the context that the model was trained on, and no more of it
    is used; "none" rotates nothing. `attention` is the factor by which yarn multiplies queries and keys. The numbers
    of a pair are neighbours in weights if it is `interleaved`, else half a head apart. With a `share` below 1 only so
    much of each head, its first numbers, is rotated.
    """

    theta: float = 10000.0
    kind: RopeKind = "default"
    factor: float = 1.0
    original: int = 0
    slow: float = 1.0
    fast: float = 1.0
    attention: float = 1.0
    truncated: bool = True
    interleaved: bool = False
    share: float = 1.0

    def rotated(self, head_dim: int) -> int:
        """Return how many numbers of a head are rotated."""
        return int(head_dim * self.share) // 2 * 2


@dataclass(frozen=True)
class Full:
    """Attention of each token to all before it; `heads` of queries share `kv_heads` of keys and values.

    With a `window` a token sees that many tokens, itself included, instead of all. `query_scale` multiplies queries.
    With `head_norms` each head of queries and keys is normed before its rotation, with `value_norms` each of values;
    with `head_gates` each head's output is scaled by a gate that reads GATE_INPUTS elements of the normed input, with
    `output_gates` each number of it by a gate that reads all. With `token_values` the embedding of a token is added
    to its value. With a `score_cap` c a score s becomes c tanh(s / c); with `sinks` each head has a score that takes
    a share and has no value. `out_scale` multiplies what a layer adds.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope: Rope = Rope()
    window: int = 0
    query_scale: float = 1.0
    out_scale: float = 1.0
    score_cap: float = 0.0
    sinks: bool = False
    output_gates: bool = False
    head_norms: bool = False
    head_gates: bool = False
    value_norms: bool = False
    token_values: bool = False
    qkv_bias: bool = False
    out_bias: bool = False

    @property
    def rotated(self) -> int:
        """Numbers of a head that are rotated: all."""
        return self.head_dim


@dataclass(frozen=True)
class Latent:
    """Attention whose keys and values are made of one latent of each token (arXiv 2405.04434).

    A token keeps `rank` numbers, of which all heads' keys of `plain` numbers and values of `value` numbers are
    products, and a rotated key of `rotated` numbers that all heads share. Queries go through `query_rank` numbers, or
    0 if they do not.
    """

    heads: int
    rank: int
    plain: int
    rotated: int
    value: int
    query_rank: int = 0
    rope: Rope = Rope()
    query_scale: float = 1.0
    first_bias: bool = False
    out_bias: bool = False

    window = 0  # no model's slides

    @property
    def query(self) -> int:
        """Numbers of a head's query."""
        return self.plain + self.rotated


@dataclass(frozen=True)
class Convolved:
    """Attention of few, small heads, whose queries and keys are convolved over tokens (CCA, arXiv 2510.04476).

    First each channel alone is, over `by_channel` tokens, then each head, over `by_head`; a mean of query and key is
    added, both are brought to one length, and keys multiplied by a number of their head. Half of a value's numbers
    are made of the token before.
    """

    heads: int
    kv_heads: int
    head_dim: int
    by_channel: int
    by_head: int
    rope: Rope = Rope()
    window: int = 0
    biased: bool = False

    query_scale = 1.0  # their length is always the same

    @property
    def rotated(self) -> int:
        """Numbers of a head that are rotated: all."""
        return self.head_dim

    @property
    def convolved(self) -> int:
        """Numbers of a token's queries and keys."""
        return (self.heads + self.kv_heads) * self.head_dim

    @property
    def half_values(self) -> int:
        """Numbers of a token's values that are made of the token itself; as many are made of the one before."""
        return self.kv_heads * self.head_dim // 2

    @property
    def lookback(self) -> Lookback:
        """The rows kept of the tokens before: inputs of queries, keys and the delayed half of values."""
        return Lookback(self.convolved + self.half_values, self.by_channel + self.by_head - 1)


@dataclass(frozen=True)
class Dense:
    """A feed-forward part that computes all of its weights for each token; `gated` has two matrices in front.

    Checkpoints may have these two `joined`. `gate_scale` multiplies what the activation reads, `down_scale` what
    comes out. Of a `sparsity` above 0, a share of numbers as a normal distribution has it below some limit, the
    activation reads only by how much they exceed that limit (Gemma 3n).
    """

    intermediate: int
    activation: Activation = "silu"
    gated: bool = True
    mlp_bias: bool = False
    joined: bool = False
    gate_scale: float = 1.0
    down_scale: float = 1.0
    sparsity: float = 0.0


@dataclass(frozen=True)
class Experts:
    """A feed-forward part of `count` experts; the `chosen` experts with the highest scores compute a token.

    Their results are weighed by their scores, which add up to 1 if they are `normalized`, times `scale`. With a
    `correction` a number is added to each score for the choice alone. If there is more than one of the `groups`, only
    experts of the `chosen_groups` best can be chosen; a group is as good as its `group_best` best scores add up to.
    An expert with `shared` intermediate numbers computes every token, and with a `shared_gate` is weighed by
    the logistic function of a product. If the router is a network instead of a product, `routed` are the numbers of
    its layers, and a `chained` router also reads the router of the layer before; if it `skips`, it can choose none.
    """

    count: int
    chosen: int
    intermediate: int
    activation: ExpertActivation = "silu"
    scores: Scores = "softmax"
    normalized: bool = True
    scale: float = 1.0
    correction: bool = False
    groups: int = 1
    chosen_groups: int = 1
    group_best: int = 1
    shared: int = 0
    shared_gate: bool = False
    biased: bool = False
    routed: int = 0
    chained: bool = False
    skips: bool = False


@dataclass(frozen=True)
class ShortConv:
    """A gated convolution over a token and the `kernel` - 1 before it, each channel alone (LFM2)."""

    channels: int
    kernel: int
    biased: bool = False

    memory = 0  # it keeps inputs alone

    @property
    def inner(self) -> int:
        """Numbers of a token that the last matrix reads."""
        return self.channels


@dataclass(frozen=True)
class Lookback:
    """What attention that convolves its inputs reads of the `kernel` - 1 tokens before: `channels` of each."""

    channels: int
    kernel: int

    memory = 0  # it keeps inputs alone
    inner = 0  # attention computes with them


@dataclass(frozen=True)
class Recurrence:
    """A memory of all tokens before, a matrix [key, value] for each of the `heads`, which fades with every token.

    A token's value is written in the place of its key: by the rule "add" it is added in the size of the token's step
    (Mamba 2, arXiv 2405.21060), by "correct" the memory is corrected to it (gated delta rule, arXiv 2412.06464).
    Heads share keys and queries in `groups`. Queries, keys and values come out of a convolution over a token and the
    `kernel` - 1 before it. Steps, which say how much fades, lie between `least_step` and `most_step`. Values read
    from the memory go through a `gating` and a norm: of the numbers of a group, or of a head by the rule "correct".
    `scales` multiply gates, values, keys, queries and steps, `out_scale` what a layer adds.
    """

    rule: Rule
    heads: int
    groups: int
    key: int
    value: int
    kernel: int
    conv_bias: bool = False
    in_bias: bool = False
    out_bias: bool = False
    least_step: float = 0.0
    most_step: float = math.inf
    gating: Gating = "before_norm"
    scales: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0)
    out_scale: float = 1.0

    @property
    def inner(self) -> int:
        """Numbers of a token that the last matrix reads: the values of all heads."""
        return self.heads * self.value

    @property
    def channels(self) -> int:
        """Numbers of a token that the convolution reads."""
        return self.inner + 2 * self.groups * self.key

    @property
    def memory(self) -> int:
        """Numbers of the memory."""
        return self.heads * self.key * self.value

    @property
    def normed(self) -> int:
        """Numbers that are normed together."""
        return self.value if self.rule == "correct" else self.inner // self.groups


def up_outputs(mlp: Dense | Experts | None) -> int:
    """Return the outputs of the widest matrices in front of a feed-forward part: gate and up joined, or up."""
    if isinstance(mlp, Dense):
        return mlp.intermediate * (1 + mlp.gated)
    return 0 if mlp is None else 2 * max(mlp.intermediate, mlp.shared)


Attention = Full | Latent | Convolved
Mlp = Dense | Experts
State = ShortConv | Recurrence | Lookback


@dataclass(frozen=True)
class LayerSpec:
    """The parts of one layer: attention, a state or both, which read the same, and a feed-forward part if it has one.

    With `norms_after` what each part adds is normed before it is added; a feed-forward part that is `parallel` reads
    the same normed input as attention instead of what this made of it. Attention `reads` the keys and values of a
    layer before it if that is not None, and computes none. Keys and values of `early` layers are made of the stream
    in front of the first early layer (SwiftKV, arXiv 2410.03960).
    """

    attention: Attention | None
    mlp: Mlp | None
    norms_after: bool = False
    parallel: bool = False
    state: State | None = None
    reads: int | None = None
    early: bool = False

    @property
    def window(self) -> int:
        """Tokens that its attention sees if it slides, else 0."""
        return 0 if self.attention is None else self.attention.window


def widest_inputs(layer: LayerSpec) -> int:
    """Return the most inputs of a matrix behind a layer's parts; those in front read the stream."""
    a, mlp, state = layer.attention, layer.mlp, layer.state
    of_attention = 0 if a is None else a.heads * (a.value if isinstance(a, Latent) else a.head_dim)
    return max(of_attention, 0 if state is None else state.inner, _down_inputs(mlp))


def _down_inputs(mlp: Mlp | None) -> int:
    if isinstance(mlp, Dense):
        return mlp.intermediate
    return 0 if mlp is None else max(mlp.intermediate, mlp.shared)


@dataclass(frozen=True)
class AltUp:
    """Several streams, of which layers compute the `active` one and correct all by it (arXiv 2301.13310, Gemma 3n).

    In parallel with attention each layer has a residual of two matrices of a `rank`, and behind all an own input:
    `own` numbers, which are looked up for the first `own_vocab` tokens. Its gate reads the active stream, `scaled` or
    not.
    """

    streams: int
    active: int
    rank: int
    own: int
    own_vocab: int
    scaled: bool = True
