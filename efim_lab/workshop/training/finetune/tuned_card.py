"""The model card of a fine-tuned model: its base, its data and its training."""

from dataclasses import dataclass

from efim_lab.workshop.training.card import mixture_text
from efim_lab.workshop.training.finetune.tuner import TunerSettings


@dataclass(frozen=True, slots=True)
class FinetuningSummary:
    """How fine-tuning went; `losses` are the means over its first and last 100 steps, in nats per token."""

    base: str
    licence: str
    settings: TunerSettings
    device: str
    files: int
    characters: int
    tokens: int
    minutes: float
    losses: tuple[float, float]


def card(tuned: FinetuningSummary) -> str:
    """Write the model card in Markdown."""
    settings = tuned.settings
    first, last = tuned.losses
    return _TEXT.format(
        base=tuned.base,
        licence_line=f"license: {tuned.licence}\n" if tuned.licence else "",
        licence=tuned.licence or "see its page",
        method=f"LoRA of rank {settings.rank}, merged" if settings.method == "lora" else "all weights",
        rate=f"{settings.rate:.2g}",
        files=f"{tuned.files:,}",
        megabytes=f"{tuned.characters / 1e6:.1f}",
        tokens=f"{tuned.tokens / 1e6:.2f}",
        minutes=f"{tuned.minutes:.0f}",
        device={"cpu": "CPU", "cuda": "GPU"}[tuned.device],
        first=f"{first:.2f}",
        last=f"{last:.2f}",
        mixture=mixture_text(settings.shares),
    )


_TEXT = """\
---
base_model: {base}
{licence_line}language: code
pipeline_tag: text-generation
---
# {base}, fine-tuned to go on inside words

Made of {base} with `python -m efim_lab train --base`, for prompts in EFIM's order (arXiv 2505.21889) that end at the
cursor, wherever that is. Markers, their order and the tokenizer are the base's.

## Training

Method: {method}. It learnt from {files} files of code, {megabytes} million characters, and saw {tokens} million
tokens in {minutes} minutes on a {device}. The rate was at most {rate} and fell to zero. The loss was {first} nats per
token in the first 100 steps and {last} in the last.
The mixture: {mixture}. Fragments are pieces of 1 to 200 characters, tokenized apart.

![loss over tokens](loss.png)

## Licence

Of the base: {licence}. The licences of its training files may add to it.
"""
