"""Command line of `efim-ls train --base`: fine-tune a model of somebody else's."""

import argparse
import json
import signal
from collections.abc import Sequence
from pathlib import Path

from efim_lab.errors import WorkError

FLAG = "--base"  # tells this command line from the others


def build_parser() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(
        "efim-ls train", description="Teach a code model to complete inside words (EFIM's fragments)."
    )
    base = "a model's folder, or its name on the hub; one with infilling markers"
    parser.add_argument(FLAG, required=True, metavar="MODEL", help=base)
    method = "small matrices beside the weights, merged at the end; or all weights"
    parser.add_argument("--method", choices=("lora", "full"), required=True, help=method)
    data = "a folder with code of any language, or one that `corpus` wrote; not needed with --resume"
    parser.add_argument("--data", type=Path, metavar="DIR", help=data)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the model goes to DIR/export")
    parser.add_argument("--minutes", type=_positive, default=60.0, metavar="N", help="training time (60)")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    parser.add_argument("--rank", type=_rank, default=16, metavar="N", help="of lora's matrices (16)")
    parser.add_argument("--rate", type=_positive, metavar="X", help="highest learning rate; default: by the width")
    parser.add_argument("--revision", default="", metavar="REF", help="branch, tag or commit of a model on the hub")
    template = "markers that its tokenizer does not tell, as the setting template"
    parser.add_argument("--template", type=_template, default=(), metavar="JSON", help=template)
    parser.set_defaults(step=_finetune)
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return value


def _template(text: str) -> tuple[tuple[str, str | Sequence[str]], ...]:
    try:
        return tuple(dict(json.loads(text)).items())
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object") from None


def _rank(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 1024")
    return int(text)


def _finetune(arguments: argparse.Namespace) -> int:
    if not (arguments.data or arguments.resume):
        raise WorkError("--data is missing: name a folder with code, or one that `corpus` wrote")
    from efim_lab.training.finetune.finetune import FinetuningJob, finetune  # torch takes seconds to import

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the process that makes rows is left behind
    order = FinetuningJob(
        base=arguments.base,
        revision=arguments.revision,
        template=arguments.template,
        method=arguments.method,
        data=arguments.data or arguments.out,  # where a resumed run finds what it learns from
        out=arguments.out,
        seconds=arguments.minutes * 60,
        resume=arguments.resume,
        rank=arguments.rank,
        rate=arguments.rate,
    )
    print(finetune(order))
    return 0
