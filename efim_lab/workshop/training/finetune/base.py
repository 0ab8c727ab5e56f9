"""The model to fine-tune: any that transformers knows and that has infilling markers."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from efim_lab.gate.errors import WorkError
from efim_lab.workshop.training.samples.sample_maker import Layout
from model_runtime.checkpoint.families.fields import Fields, read_json
from model_runtime.checkpoint.hub.fetch import fetch_folder
from model_runtime.checkpoint.hub_names import HubName, cached_folder, hub_origin, local_folder
from model_runtime.checkpoint.weight_files import refuse_adapter
from model_runtime.loading.checkpoint_reader import TemplateOverride, read_checkpoint
from model_runtime.prompt.families import FAMILIES
from model_runtime.prompt.template import Template
from model_runtime.prompt.tokenizer import Tokenizer

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_LICENCE = re.compile(r"\A---\n(?:.*\n)*?license: *([^\n]+)\n")


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A checkpoint to fine-tune; `context` in tokens, `dtype` is the stored weights'."""

    folder: Path
    hidden: int
    context: int
    dtype: torch.dtype
    layout: Layout

    @property
    def name(self) -> str:
        """Its name on the hub, or its folder's."""
        name, commit = hub_origin(self.folder)
        return name if commit else self.folder.resolve().name

    @property
    def licence(self) -> str:
        """The licence stated in its model card, or ""."""
        card = self.folder / "README.md"
        found = _LICENCE.search(card.read_text(encoding="utf-8", errors="replace")) if card.exists() else None
        return found[1].strip("\"' ") if found else ""


def find_base(name: str, revision: str = "", override: TemplateOverride = ()) -> BaseModel:
    """Find a model, downloading it if needed; raises ModelError if the server could not complete with it."""
    refuse_adapter(here := _folder(name, revision, override))
    folder, config, tokenizer, template, _ = read_checkpoint(here, override)
    if config.family == "efim":
        how = "`python -m efim_lab train run --from`"
        raise WorkError(f"{folder} is of the embedded model's own family, unknown to transformers: train it by {how}")
    end = _end(tokenizer, template) or next(iter(config.end_ids), None)
    if end is None:
        raise WorkError(f"{folder / 'config.json'} has no eos_token_id: add the token that ends a text")
    return BaseModel(
        folder=folder,
        hidden=config.hidden,
        context=config.context,
        dtype=_dtype(folder),
        layout=Layout(template, end),
    )


def _folder(name: str, revision: str, override: TemplateOverride) -> Path:
    if here := local_folder(name) or cached_folder(name, revision):
        return here

    def look(folder: Path, _size: int) -> None:  # any size is accepted: training needs a different amount of memory
        if folder.is_file():
            raise WorkError(f"{name} is in GGUF, which is not trained: name a repository with safetensors")
        read_checkpoint(folder, override)

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=100)
        update = partial(bar.update, task)
        named = HubName(name, revision)
        return fetch_folder(named, lambda message, percent: update(description=message, completed=percent), look)


def _dtype(folder: Path) -> torch.dtype:
    fields = Fields(read_json(folder / "config.json"))
    stored = fields.text("dtype", fields.text("torch_dtype", "float32"))
    if stored not in DTYPES:
        remedy = f"set it to the weights' own: {' or '.join(DTYPES)}"
        raise WorkError(f"{folder / 'config.json'} says dtype {stored!r}: {remedy}")
    return DTYPES[stored]


def _end(tokenizer: Tokenizer, template: Template) -> int | None:
    """Return the token that ends a completion if the family has one in addition to the end of text."""
    family = next((family for family in FAMILIES if family.name == template.family), None)
    if family is None or family.end_id is not None:
        return family and family.end_id
    return next((tokenizer.token(name) for name in family.ends), None)
