"""The card of a run that has not ended: its model, how to continue it, its loss and its measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from efim_lab.gate.evaluation.figures import markdown
from efim_lab.gate.network import Shape
from efim_lab.workshop.training.card import mixture_text
from efim_lab.workshop.training.checkpoint import RunProgress
from efim_lab.workshop.training.corpus.corpus import Manifest
from efim_lab.workshop.training.corpus.languages import titles
from efim_lab.workshop.training.report import thinned
from efim_lab.workshop.training.run.measurement import Measurement
from efim_lab.workshop.training.samples.sample_maker import WITHOUT_FRAGMENTS, Shares

MILLION = 1_000_000
_ROW, _LONG_ROW = 5 * MILLION, 25 * MILLION  # tokens to a row of the table
_NEAR = MILLION // 2  # tokens: a measurement this near to a row's end belongs to it


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The state of a run; `settings` as in its checkpoint, `manifest` is the corpus's."""

    settings: Mapping[str, Any]
    progress: RunProgress
    parameters: int
    manifest: Manifest
    log: Sequence[Mapping[str, float]]
    measurements: Sequence[Measurement]


def run_card(run: RunSummary) -> str:
    """Write the card in Markdown."""
    settings, progress = run.settings, run.progress
    learnt = [entry for entry in run.manifest.packages if entry.learnt]
    return _TEXT.format(
        tokens=f"{progress.tokens / MILLION:.1f}",
        planned=f"{(settings['tokens'] + progress.branched) / MILLION:g}",
        hours=f"{(progress.earlier + progress.elapsed) / 3600:.1f}",
        shape=_shape(settings["shape"]),
        parameters=f"{run.parameters / MILLION:.1f}",
        vocabulary=f"{settings['shape']['vocabulary']:,}",
        corpus=f"{sum(entry.bytes for entry in learnt) / MILLION:.0f}",
        language=titles(run.manifest.languages),
        sources=f"{len(learnt):,}",
        mixture=mixture_text(Shares(**settings["shares"])),
        rate=f"{settings['rate']:g}",
        warmup=f"{settings['warmup_tokens'] / MILLION:g}",
        decay=f"{settings['decay']:.0%}",
        history=_history(progress),
        begin=_command(settings, "--from OTHER " * bool(progress.branched)),
        go_on=_command(settings, "--resume "),
        elsewhere=_command(settings, "--resume --from SNAPSHOT "),
        table=_table(run),
    )


def _shape(shape: Mapping[str, Any]) -> str:
    return (
        f"{Shape(**shape).describe()}, "
        f"{shape['layers']} layers of width {shape['width']}, {shape['heads']} heads of {shape['head_dim']} "
        f"({shape['kv_heads']} for keys and values), feed-forward width {shape['feed_forward']}, "
        f"context {shape['context']:,} tokens"
    )


def _history(progress: RunProgress) -> str:
    """Describe where the run branched off and where it went on with fresh optimizer state."""
    history = ""
    if progress.branched:
        history += f"\nIt branched off another run at {progress.branched / MILLION:.1f} million tokens.\n"
    if progress.fresh:
        points = ", ".join(f"{tokens / MILLION:.1f}" for tokens in progress.fresh)
        history += f"\nIt continued from a snapshot, with fresh optimizer state, at (million tokens): {points}.\n"
    return history


def _command(settings: Mapping[str, Any], start: str) -> str:
    shares = Shares(**settings["shares"])
    names = {Shares(): "", WITHOUT_FRAGMENTS: "--shares without-fragments "}
    mixed = ",".join(f"{kind}={share:g}" for kind, share in settings["shares"].items())
    return (
        f"python -m efim_lab train run {start}--corpus corpus --tokenizer tokenizer "
        f"--tokens {settings['tokens'] / MILLION:g} --decay {settings['decay']:g} "
        f"{names.get(shares, f'--shares {mixed} ')}--out run"
    )


def _table(run: RunSummary) -> str:
    """List each stretch of tokens with its loss, and the figures at its end."""
    rows = [("million tokens", "hours", "loss", "exact match", "first word", "learning rate")]
    for entry in thinned(run.log, _ROW if run.progress.tokens <= 2 * _LONG_ROW else _LONG_ROW):
        near = [each for each in run.measurements if abs(each.tokens - entry["tokens"]) <= _NEAR]
        measured = near[-1:]
        rows.append(
            (
                f"{entry['tokens'] / MILLION:.1f}",
                f"{entry['seconds'] / 3600:.1f}",
                f"{entry['loss']:.3f}",
                "".join(f"{each.exact:.1%} of {each.lines:,}" for each in measured),
                "".join(f"{each.word:.1%}" for each in measured),
                "".join("full" if each.rate == 1 else f"{each.rate:.0%} of full" for each in measured),
            )
        )
    return markdown.table(rows)


_TEXT = """\
# A pretraining run: {tokens} of {planned} million tokens

The state of a run of `python -m efim_lab train run` that can be continued on any machine: weights in fp16
(`model.safetensors`), settings and the place in the data (`run.json`), and the log (`log.jsonl`, one entry for each
half million tokens). The state of the optimizers is not kept.

## The model

{parameters} million parameters: {shape}.
Its tokenizer has {vocabulary} entries. The corpus is {corpus} MB of {language} from {sources} sources.
The mixture: {mixture}.

The learning rate rises to {rate} over {warmup} million tokens, stays there, and falls to zero over the last {decay}
of the tokens. So far the run took {hours} hours of computing.
{history}
## Commands

Begin:

    {begin}

Continue on the same machine, from the newest checkpoint in `run`:

    {go_on}

Continue on another machine, from this folder (`SNAPSHOT`), with the same corpus and tokenizer:

    {elsewhere}

## Loss and exact match

The loss is the mean in nats per token over the stretch that ends at the row's tokens. Exact match is the share of
held-out lines that the server completes exactly, and first word the share whose first word is right, measured
with the n-grams of the embedded model. The learning rate at that point stands next to them: until it has fallen,
the loss is higher, and the shares are lower, than they would be if the run ended there.

{table}

![loss over tokens](loss.png)
"""
