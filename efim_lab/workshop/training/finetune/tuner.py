"""Fine-tunes a model, all of it or adapters, and writes it in its base's format."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from peft import PeftModel
from torch import Tensor
from torch.optim import AdamW
from transformers import PreTrainedModel

from efim_lab.workshop.training.finetune import lora
from efim_lab.workshop.training.finetune.base import BaseModel
from efim_lab.workshop.training.loop import AutogradGradients, Learner, TrainingLoop, device
from efim_lab.workshop.training.objective import loss_of
from efim_lab.workshop.training.run.schedule import Schedule, TimeBudget
from efim_lab.workshop.training.samples.sample_maker import Shares
from model_runtime.decoder.hf.read import read_hf_model
from model_runtime.loading.checkpoint_reader import TemplateOverride

Method = Literal["lora", "full"]
# Fragments dominate: they have a cut inside a word every 100 characters, other samples have only one.
SHARES = Shares(plain=0.05, fim=0.05, fragments=0.6, efim=0.2, served=0.1, cut=1.0)
# Learning rate times the model's width: the effect of an Adam step grows with the width.
RATES: dict[Method, float] = {"lora": 0.64, "full": 0.16}
# A model's files other than its weights; the n-grams, which were fitted to the old weights, are left out.
COPIED = (
    *("config.json", "generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "LICENSE*", "NOTICE*"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerSettings(Schedule):
    """The settings of a fine-tuning run; `base` identifies the model."""

    base: str
    method: Method
    rank: int
    template: TemplateOverride = ()
    shares: Shares = field(default_factory=lambda: SHARES)


class Tuner(TrainingLoop):
    """A run that starts from an existing model's weights."""

    def __init__(
        self,
        begun: BaseModel,
        settings: TunerSettings,
        folder: Path,
        seconds: float,
        compiled: bool,
        **clock: Callable[[], float],
    ) -> None:
        self.base, self.settings = begun, settings
        self.model = _loaded(begun, settings)
        self.model.train()
        trained = torch.nn.ParameterList(p for p in self.model.parameters() if p.requires_grad)
        optimizer = AdamW(trained, lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        compile_loss = torch.compile(dynamic=False)  # pyright: ignore[reportUnknownMemberType]
        loss: Callable[[Tensor], Tensor] = partial(compile_loss(loss_of) if compiled else loss_of, self.model)
        learner = Learner(trained, [optimizer], AutogradGradients(loss, settings.tokens_at_once))
        super().__init__(learner, settings, folder, TimeBudget(seconds), **clock)

    def export(self, folder: Path) -> None:
        """Write a checkpoint folder like the base's, in its dtype."""
        model = lora.merged(self.model) if isinstance(self.model, PeftModel) else self.model
        model.to(dtype=self.base.dtype)  # pyright: ignore
        model.save_pretrained(folder)  # pyright: ignore[reportUnknownMemberType]
        for weights in folder.glob("*.safetensors"):
            weights.chmod(0o644)
        for pattern in COPIED:
            for path in self.base.folder.glob(pattern):
                shutil.copy(path, folder)


def _loaded(begun: BaseModel, settings: TunerSettings) -> PreTrainedModel | PeftModel:
    """Load the base's weights: in fp32 if they are trained, in bf16 on a GPU if only the adapters are."""
    only_read = settings.method == "lora" and device().type == "cuda"
    model = read_hf_model(begun.folder, torch.bfloat16 if only_read else torch.float32)
    model.to(device=device())  # pyright: ignore
    return lora.adapted(model, settings.rank, settings.seed) if settings.method == "lora" else model
