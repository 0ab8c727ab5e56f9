"""The command line of `python -m efim_lab train --base`: fine-tune an existing model."""

import argparse
import json
import math
import signal
from collections.abc import Sequence
from pathlib import Path

from efim_lab.gate.errors import WorkError
from efim_ls.commands.arguments import Parser, epilog

FLAG = "--base"  # selects this command line
_EXAMPLES = (
    "python -m efim_lab train --base owner/name --method lora --data src --out own",
    "python -m efim_lab train --base owner/name --method lora --out own --resume",
)


def build_parser() -> Parser:
    """Return the parser for fine-tuning."""
    about = "Fine-tune a code model to complete inside words (EFIM's fragments)."
    parser = Parser("python -m efim_lab train", description=about, epilog=epilog(*_EXAMPLES))
    base = "the model: a folder, or its name on the hub; it needs infilling markers"
    parser.add_argument(FLAG, required=True, metavar="MODEL", help=base)
    method = "train low-rank adapters and merge them at the end (lora), or train all weights (full)"
    parser.add_argument("--method", choices=("lora", "full"), required=True, help=method)
    data = "a folder with code in any language, or one written by `corpus`; not needed with --resume"
    parser.add_argument("--data", type=Path, metavar="DIR", help=data)
    out = "the folder of the run; the finished model is written to DIR/export"
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=out)
    minutes = "the training time in minutes (default: 60)"
    parser.add_argument("--minutes", type=_positive, default=60.0, metavar="N", help=minutes)
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint in --out")
    parser.add_argument("--rank", type=_rank, default=16, metavar="N", help="rank of LoRA's matrices (default: 16)")
    rate = "the highest learning rate (default: derived from the model's width)"
    parser.add_argument("--rate", type=_positive, metavar="X", help=rate)
    revision = "the branch, tag or commit of a model on the hub"
    parser.add_argument("--revision", default="", metavar="REF", help=revision)
    template = "infilling markers that the tokenizer does not name, as in the setting template"
    parser.add_argument("--template", type=_template, default=(), metavar="JSON", help=template)
    parser.set_defaults(step=_finetune)
    return parser


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def _positive(text: str) -> float:
    value = number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value


def _template(text: str) -> tuple[tuple[str, str | Sequence[str]], ...]:
    try:
        return tuple(dict(json.loads(text)).items())
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}") from None


def _rank(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1024, got {text!r}")
    return int(text)


def _finetune(arguments: argparse.Namespace) -> int:
    if not (arguments.data or arguments.resume):
        raise WorkError("--data is missing: name a folder with code, or one written by `corpus`")
    from efim_lab.workshop.training.finetune.finetune import FinetuningJob, finetune  # importing torch takes seconds

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the process that makes rows is orphaned
    job = FinetuningJob(
        base=arguments.base,
        revision=arguments.revision,
        template=arguments.template,
        method=arguments.method,
        data=arguments.data or arguments.out,  # a resumed run finds its data there
        out=arguments.out,
        seconds=arguments.minutes * 60,
        resume=arguments.resume,
        rank=arguments.rank,
        rate=arguments.rate,
    )
    print(finetune(job))
    return 0
