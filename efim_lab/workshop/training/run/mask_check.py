"""Measures what isolating excerpts costs a model: the same text isolated, seen whole, and left out."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from efim_lab.gate import network
from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.evaluation.figures.intervals import proportion
from efim_lab.workshop.training import objective
from efim_lab.workshop.training.checkpoint import finished_weights
from efim_lab.workshop.training.samples import bpe, spans, stream
from efim_lab.workshop.training.samples.masks import sample_starts
from efim_lab.workshop.training.samples.packages import PackageMates, by_package
from efim_lab.workshop.training.samples.sample_maker import SampleMaker, Shares
from model_runtime.prompt.prompt import heal
from model_runtime.prompt.tokenizer import Tokenizer

WINDOW, LIMIT = 1400, 2048  # tokens that a window has at most, and a sample with its excerpts
WAYS = {"isolated": Shares(whole=0, cut=0), "seen whole": Shares(whole=1, cut=0), "none": Shares(cut=0)}


class MaskedPlace(NamedTuple):
    """The rest of a line in a window of a document, and the sample that each way makes of it."""

    window: str
    span: spans.Span
    samples: dict[str, list[int]]


class MaskFigures(NamedTuple):
    """For each place whether all tokens of the line were the likeliest, and the bits of all lines."""

    right: list[bool]
    bits: float


def check_masks(folder: Path, documents: Sequence[CodeDocument], places: int) -> str:
    """Measure the model in a folder at `places` places of documents with others of their package; return a table."""
    model, tokenizer = network.build(network.read_shape(folder)), Tokenizer(folder / "tokenizer.json")
    model.load_state_dict(finished_weights(folder))
    model.eval()
    chosen = choose_places(tokenizer, documents, places)
    figures = {way: _measured(model, tokenizer, chosen, way) for way in WAYS}
    characters = sum(place.span.end - place.span.cursor for place in chosen)
    rows = [("excerpts", "exact", "bits per character")]
    for way, (right, bits) in figures.items():
        share = proportion(right)
        exact = f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"
        rows.append((way, exact, f"{bits / characters:.3f}"))
    isolated, whole = (figures[way].right for way in ("isolated", "seen whole"))
    ratio = sum(isolated) / max(1, sum(whole))
    alike = sum(a == b for a, b in zip(isolated, whole, strict=True)) / len(chosen)
    summary = f"isolated, {ratio:.1%} as many lines are right as seen whole; {alike:.1%} of the places come out alike"
    return f"{markdown.table(rows)}\n\n{summary}"


def choose_places(tokenizer: Tokenizer, documents: Sequence[CodeDocument], count: int) -> list[MaskedPlace]:
    """Choose places whose samples have excerpts, with the same excerpts in each; reproducible."""
    rng, packages = random.Random(7), by_package(documents)
    makers = {way: SampleMaker(tokenizer, shares, LIMIT) for way, shares in WAYS.items()}
    mates = [PackageMates(packages[name], each) for each in documents if (name := package_of(each))]
    found = list[MaskedPlace]()
    while len(found) < count:
        others = rng.choice(mates)
        window, _ = rng.choice(list(stream.windows(others.document.text, WINDOW, rng)))
        span, seed = spans.choose_span(window, rng, spans.REST_OF_LINE), rng.random()
        if span is None or not window[span.cursor : span.end].strip():
            continue
        samples = {
            way: maker.around(window, span, random.Random(seed), None if way == "none" else others)
            for way, maker in makers.items()
        }
        whole = {way: ids for way, ids in samples.items() if ids}
        if len(whole) == len(WAYS) and whole["isolated"][0] == bpe.ID[bpe.FILE]:
            found.append(MaskedPlace(window, span, whole))
    return found


@torch.inference_mode()
def _measured(
    model: network.EfimForCausalLM, tokenizer: Tokenizer, places: Sequence[MaskedPlace], way: str
) -> MaskFigures:
    """Give the model each line token by token; the first tokens must spell the unfinished word again."""
    right, bits = list[bool](), 0.0
    for place in places:
        ids = place.samples[way]
        done, stub = heal(tokenizer, place.window[place.span.anchor : place.span.cursor])
        first = ids.index(bpe.ID[bpe.MIDDLE]) + 1 + len(tokenizer.encode(done))
        rows, line = torch.tensor([ids]), ids[first:-1]
        seen = objective.seen_by(sample_starts(rows))
        logits = model(input_ids=rows, attention_mask=seen, use_cache=False).logits[0, first - 1 : -2].float()
        _constrain(logits, tokenizer, stub.encode(), line)
        wanted = torch.tensor(line)
        right.append(bool((logits.argmax(-1) == wanted).all()))
        bits -= logits.log_softmax(-1).gather(1, wanted[:, None]).sum().item() / math.log(2)
    return MaskFigures(right, bits)


def _constrain(logits: torch.Tensor, tokenizer: Tokenizer, stub: bytes, wanted: Sequence[int]) -> None:
    """Rule out, in place, the tokens that do not spell the rest of the stub."""
    for row, token in enumerate(wanted):
        if not stub:
            return
        spelled = [bool(each) and (each.startswith(stub) or stub.startswith(each)) for each in tokenizer.token_bytes]
        spelled += [False] * (logits.shape[1] - len(spelled))
        logits[row, ~torch.tensor(spelled)] = -1e9
        stub = stub[len(tokenizer.token_bytes[token]) :]
