"""What `efim-ls models` says fits is what loading lets through."""

from __future__ import annotations

import pytest

from efim_ls.commands.models.rows import Machine, _costs, _frame
from efim_ls.memory_shares import share_out
from efim_ls.settings import DEFAULTS
from model_runtime.checkpoint.config import parse_config
from model_runtime.loading.memory_fit import memory_need, model_size


@pytest.mark.parametrize("room", [0, -1])
def test_a_model_fits_with_room_for_one_frame_however_large(room: int) -> None:
    config = parse_config(
        {"model_type": "llama", "vocab_size": 32256, "hidden_size": 4096, "num_hidden_layers": 32}
        | {"num_attention_heads": 32, "intermediate_size": 11008, "max_position_embeddings": 16384}
    )
    size, kv = model_size(config), share_out(DEFAULTS.memory_mib).arenas << 20
    assert _frame(config) > 4 * kv
    free = memory_need(size, "fp32", _frame(config)).total + room
    fits, *_ = _costs(Machine(free, 1e10, ["fp32"], kv, None), size, config, None)
    assert ("fp32" in fits) == (room == 0)
