"""How families name the tensors of their experts."""

from __future__ import annotations

from typing import NamedTuple

from model_runtime.checkpoint.families.layer_spec import Experts


class ExpertNames(NamedTuple):
    """Names of tensors within a layer; `{}` stands for an expert's number.

    Of a family whose experts are `joined`, gate and up are a tensor of all experts, [count, 2 intermediate, hidden],
    and down another, [count, hidden, intermediate]. Where they are `turned`, these are [count, hidden,
    2 intermediate], with gate and up in turns, and [count, intermediate, hidden], and have biases. Gate and up of the
    shared expert are one matrix where it is `shared_joined`. The `correction` is [count], or [1, count] as a
    `correction_row`.
    """

    router: str = "mlp.gate"
    gate: str = "mlp.experts.{}.gate_proj"
    up: str = "mlp.experts.{}.up_proj"
    down: str = "mlp.experts.{}.down_proj"
    shared: str = "mlp.shared_experts."
    shared_gate: str = ""
    correction: str = ""
    correction_row: bool = False
    joined: bool = False
    turned: bool = False
    shared_joined: bool = False


_SPARSE = "block_sparse_moe."
EXPERT_NAMES: dict[str, ExpertNames] = {
    "qwen2_moe": ExpertNames(shared="mlp.shared_expert.", shared_gate="mlp.shared_expert_gate"),
    "qwen3_moe": ExpertNames(),
    "mixtral": ExpertNames(
        f"{_SPARSE}gate", f"{_SPARSE}experts.{{}}.w1", f"{_SPARSE}experts.{{}}.w3", f"{_SPARSE}experts.{{}}.w2"
    ),
    "granitemoe": ExpertNames(
        f"{_SPARSE}router.layer",
        up=f"{_SPARSE}input_linear.weight",
        down=f"{_SPARSE}output_linear.weight",
        joined=True,
    ),
    "granitemoehybrid": ExpertNames(
        f"{_SPARSE}router.layer",
        up=f"{_SPARSE}input_linear.weight",
        down=f"{_SPARSE}output_linear.weight",
        shared="shared_mlp.",
        joined=True,
        shared_joined=True,
    ),
    "qwen3_next": ExpertNames(shared="mlp.shared_expert.", shared_gate="mlp.shared_expert_gate"),
    "ernie4_5_moe": ExpertNames(correction="mlp.moe_statics.e_score_correction_bias", correction_row=True),
    "deepseek_v2": ExpertNames(),
    "deepseek_v3": ExpertNames(correction="mlp.gate.e_score_correction_bias"),
    "glm4_moe_lite": ExpertNames(correction="mlp.gate.e_score_correction_bias"),
    "zaya": ExpertNames(
        correction="mlp.gate.balancing_biases",
        up="mlp.experts.gate_up_proj",
        down="mlp.experts.down_proj",
        joined=True,
    ),
    "gpt_oss": ExpertNames(
        "mlp.router", up="mlp.experts.gate_up_proj", down="mlp.experts.down_proj", joined=True, turned=True
    ),
}


def expert_shapes(family: str, experts: Experts, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the names within a layer and the shapes of the tensors of its experts."""
    names, e = EXPERT_NAMES[family], experts
    classes = e.count + e.skips
    shapes: dict[str, tuple[int, ...]] = {f"{names.router}.weight": (e.count, hidden)}
    if e.routed:
        shapes = _network(names.router, e, hidden, classes)
    if e.biased:
        shapes[f"{names.router}.bias"] = (e.count,)
    if e.correction:
        shapes[names.correction] = (1, classes) if names.correction_row else (classes,)
    shapes |= _joined(names, e, hidden) if names.joined else _apart(names, e, hidden)
    if e.shared and names.shared_joined:
        shapes[f"{names.shared}gate_up_proj.weight"] = (2 * e.shared, hidden)
    elif e.shared:
        shapes |= {f"{names.shared}{part}_proj.weight": (e.shared, hidden) for part in ("gate", "up")}
    if e.shared:
        shapes[f"{names.shared}down_proj.weight"] = (hidden, e.shared)
    if e.shared_gate:
        shapes[f"{names.shared_gate}.weight"] = (1, hidden)
    return shapes


def _network(at: str, e: Experts, hidden: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a router that is a network."""
    inner = f"{at}.router_mlp."
    shapes: dict[str, tuple[int, ...]] = {
        f"{at}.down_proj.weight": (e.routed, hidden),
        f"{at}.down_proj.bias": (e.routed,),
    }
    if e.chained:
        shapes[f"{at}.router_states_scale"] = (e.routed,)
    shapes[f"{inner}norm.weight"] = (e.routed,)
    for name in ("fc1", "fc2"):
        shapes |= {f"{inner}{name}.weight": (e.routed, e.routed), f"{inner}{name}.bias": (e.routed,)}
    return shapes | {f"{inner}out_proj.weight": (classes, e.routed)}


def _joined(names: ExpertNames, e: Experts, hidden: int) -> dict[str, tuple[int, ...]]:
    up, down = (e.count, 2 * e.intermediate, hidden), (e.count, hidden, e.intermediate)
    if not names.turned:
        return {names.up: up, names.down: down}
    turned = {names.up: (e.count, hidden, 2 * e.intermediate), names.down: (e.count, e.intermediate, hidden)}
    biases = {f"{names.up}_bias": up[:2], f"{names.down}_bias": down[:2]} if e.biased else {}
    return turned | biases


def _apart(names: ExpertNames, e: Experts, hidden: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for number in range(e.count):
        shapes |= {f"{name.format(number)}.weight": (e.intermediate, hidden) for name in (names.gate, names.up)}
        shapes[f"{names.down.format(number)}.weight"] = (hidden, e.intermediate)
    return shapes
