"""Adds low-rank adapters (LoRA, arXiv 2106.09685) to the linear layers of attention and MLP, and merges them."""

import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel


def adapted(model: PreTrainedModel, rank: int, seed: int) -> PeftModel:
    """Freeze a model and add adapters, zero at first, to its linear layers except the output head."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, to peft
        found = get_peft_model(model, config)
    assert isinstance(found, PeftModel)
    return found


def merged(model: PeftModel) -> PreTrainedModel:
    """Merge the adapters into the weights."""
    whole: object = model.merge_and_unload()  # pyright: ignore
    assert isinstance(whole, PreTrainedModel)
    return whole
