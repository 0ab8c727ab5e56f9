"""`efim-ls doctor`: says whether suggestions work here and how fast they come, and what runs and why."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from efim_ls.access.reasons import refusal, why_empty
from efim_ls.commands.arguments import check_model, counted, model_name, object_setting
from efim_ls.completion.models.kinds import larger_folder
from efim_ls.failures import Failure
from efim_ls.languages.table import ANY, name_of, names_of
from efim_ls.paths import cache_folder
from efim_ls.request import Answer, Request
from efim_ls.session.loader import CLOSING
from efim_ls.settings import DEFAULTS, Settings
from efim_ls.version import installed_version
from efim_ls.workspace.database.origin import index_path, index_size, read_summary
from model_runtime.cancel import NEVER
from model_runtime.checkpoint.config import read_config
from model_runtime.checkpoint.embedded import EMBEDDED
from model_runtime.errors import EngineError, ModelError
from model_runtime.loading.pass_times import duration, key_costs
from model_runtime.loading.threads import choose_threads, read_cpus
from model_runtime.machine import cuda_state

if TYPE_CHECKING:
    from efim_ls.completion.completer import Completer
    from model_runtime.remote.engine import RemoteFacts

SAMPLE = "def mean(values):\n    total = 0\n    for value in values:\n        "
KEYSTROKES = "qux = zed(vex, wye)"  # unlike any suggestion, because typing through a suggestion costs nothing
# A prompt of some 250 tokens, none of which the sample's prompt begins with.
PLACE = "".join(f"def take_{n}(shelf, count={n}):\n    return shelf.items[count:{n}0]\n\n\n" for n in range(1, 13))
MEASURED, MODEL = "measured now", "model"
PASSES = "milliseconds of a pass of 1, 4 and 64 rows"
ANSWERED = 8  # tokens of an engine's answer that is timed
NAMED = 3  # languages that the verdict names
# Of a model, for everybody; how it is computed is for `--verbose`.
BRIEF = ("model", "revision", "languages", "parameters", "device", "device reason", "weights", "threads")
PACKAGES = ("efim-ls", "torch", "tokenizers", "xformers", "pygls")

Facts = Mapping[str, str]


class Examination(NamedTuple):
    """The findings: a `verdict` on languages and speed, or the `problem` that keeps suggestions from coming.

    `slower` is why they could come faster; `sections` are the facts.
    """

    verdict: str = ""
    problem: str | None = None
    slower: str | None = None
    sections: Mapping[str, Facts] = {}


def show(model: str, measure: bool = False, engine: str = "", verbose: bool = False) -> int:
    """Print a verdict, then the facts it rests on, if asked with times by format; return 1 if something is wrong.

    `verbose` facts say how the model is computed, and why. With an `engine` on another machine, that has the model;
    the embedded one is measured here.
    """
    began = perf_counter()
    elsewhere = _engine_settings(engine, model) if engine else None
    with Console(stderr=True).status("loading the model") as status:
        try:
            found = _examine("" if elsewhere else model, began, status, measure)
            if not elsewhere and larger_folder(Settings(model=model)):
                found = _with_first(found, _examine("", perf_counter(), status, False))
            if elsewhere:
                status.update(f"asking {escape(elsewhere.engine.host)}")
                facts = _examine_engine(elsewhere, PLACE + SAMPLE)
                found = found._replace(sections={"engine on another machine": facts, **found.sections})
        except (Failure, ModelError) as error:
            found = Examination(problem=str(error))
        sections = {**found.sections, "index of the working folder": _index(), "machine": _machine()}
    console, wrong = Console(highlight=False), "bold red"
    problems = {"does not work": found.problem, "wrong": _cache_problem()}
    verdict = {"works": found.verdict, "slower than it could be": found.slower} if not found.problem else {}
    for kind, sentence in (verdict | problems).items():
        if sentence:
            console.print(f"[{wrong if kind in problems else 'none'}]{kind}[/]: {escape(sentence)}", soft_wrap=True)
    for title, facts in sections.items():
        is_whole = verbose or title != MODEL
        _print_section(console, title, {name: facts[name] for name in facts if is_whole or name in BRIEF})
    return 1 if any(problems.values()) else 0


def _examine(model: str, began: float, status: Status, measure: bool) -> Examination:
    """Load the model and measure its answers; raises Failure or ModelError if it cannot be used."""
    check_model(model)
    from efim_ls.completion.shared_models import SharedModels
    from model_runtime.decoder.native.decoder import native_missing

    completer = SharedModels(lasting=False).load(
        # Without a store: a disk_mib other than the user's would discard their cache.
        Settings(model=model, persist=False, engine=replace(DEFAULTS.engine, alone=True)),
        lambda message, percent: status.update(f"{escape(message)} ({percent} %)"),
    )
    status.update("measuring keystrokes")
    found = _measure_answers(completer, began)
    described = {name: str(value) for name, value in completer.describe().items() if not name.startswith("store")}
    described["model"] = model_name(described["model"])
    described["languages"] = ", ".join(names_of(completer.models.languages))
    described["parameters"] = f"{int(described['parameters']) / 1e6:,.0f} million"
    completer.close(CLOSING)
    facts = {name.replace("_", " "): value for name, value in described.items() if value}
    why_not = native_missing(read_config(EMBEDDED)) if described["device"] == "cpu" else None
    slower = f"the compiled decoder is left out: {why_not}" if why_not else None
    sections = {**found.sections, MODEL: facts}
    if len(models := _models(completer)) > 1:
        sections["model of each language"] = models
    if measure:
        status.update("measuring number formats")
        in_use = f"{described['weights']} {described['decoder']}" if described["device"] == "cpu" else ""
        sections[PASSES] = _measure_formats(model, in_use)
    return found._replace(slower=slower, sections=sections)


def _with_first(larger: Examination, first: Examination) -> Examination:
    """Return the findings on a larger model, with those on the embedded one, which answers before it in editors."""
    if larger.problem or first.problem:
        return larger
    verdict = f"{larger.verdict}; before that the embedded model answers ({first.verdict})"
    facts = {"the embedded model, which answers first": first.sections[MEASURED]}
    return larger._replace(verdict=verdict, sections={**larger.sections, **facts})


def _models(completer: Completer) -> Facts:
    """Return which model answers in which language; only the first one is loaded."""
    by_model = dict[str, list[str]]()
    for language in completer.models.languages:
        by_model.setdefault(completer.models.model_for(language), []).append(language)
    return {", ".join(names_of(languages)): model_name(model) for model, languages in by_model.items()}


def _measure_formats(model: str, in_use: str) -> Facts:
    """Time passes on the CPU in each way that works here; `in_use` names the way that computes the model."""
    from model_runtime.checkpoint.hub_names import model_folder
    from model_runtime.loading.checkpoint_reader import read_architecture
    from model_runtime.loading.memory_fit import model_size
    from model_runtime.loading.pass_times import measure_passes
    from model_runtime.loading.weight_format import usable_methods

    config = read_architecture(model_folder(model))
    if config.foreign:
        return {"not measured": "transformers computes this model"}
    threads = choose_threads("auto", model_size(config).parameters, read_cpus()).threads
    found = measure_passes(config, usable_methods(config), threads)
    return {
        str(way): f"{times.one:.2f}, {times.few:.2f}, {times.many:.1f}" + ", in use" * (str(way) == in_use)
        for way, times in found.items()
    }


def _measure_answers(completer: Completer, began: float) -> Examination:
    """Complete a sample of Python, then type into it; `began` is when the command started."""
    answers = [_answer(completer, SAMPLE)]
    first = perf_counter() - began
    answers += [_answer(completer, SAMPLE + KEYSTROKES[:n]) for n in range(1, len(KEYSTROKES))]
    with_passes = [each.costs for each in answers if each.costs.passes]
    if not any(each.costs.passes for each in answers[1:]):
        why = (why_empty(answers[0]) or refusal("empty")).why
        return Examination(problem=f"the model suggests nothing in a sample of Python ({why}): use another model")
    a_pass = median(each.ms.decode / each.passes for each in with_passes)
    place = _answer(completer, PLACE, "doctor:place").costs
    costs = key_costs(a_pass, place.ms.prefill / max(1, place.recomputed))
    assert costs.cold is not None
    facts: Facts = {
        "first suggestion": f"{first:.1f} s from the start of this command, most of it to load the model",
        "a typical key": f"{duration(costs.typical)}: half of the keys take no more",
        "a cold place": f"{duration(costs.cold)}: its first key, where nothing was computed ahead",
        "decoding": f"{a_pass:.1f} ms a pass (median of {len(with_passes)} answers)",
    }
    verdict = f"{listed(completer.models.languages)}, a typical key takes about {duration(costs.typical)}"
    return Examination(verdict, sections={MEASURED: facts})


def listed(languages: Sequence[str]) -> str:
    """Return the names that people use for languages; many are counted."""
    if ANY in languages:
        return "all languages"
    names = names_of(languages)
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {counted(more, 'more language')}" if more > 0 else "")


def _answer(completer: Completer, text: str, uri: str = "doctor:sample") -> Answer:
    return completer.complete(Request(uri, text, len(text)), NEVER)


def _machine() -> Facts:
    return {
        "interpreter": f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed_version(name) or "not installed" for name in PACKAGES},
        "gpu": cuda_state(),
    }


def _index() -> Facts:
    path = index_path(cache_folder(""), [Path()])
    summary = read_summary(path)
    if summary is None:
        return {"files": "none: open the folder in an editor, or run efim-ls index"}
    files = {name_of(language): counted(count, "file") for language, count in summary.files.items()}
    return {"in": f"{path} ({index_size(path) / 1e6:.1f} MB)", **files}


def _cache_problem() -> str | None:
    """Return why nothing can be kept on disk, None if it can."""
    folder = cache_folder("").absolute()
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
        return None
    return f"nothing can be written to {folder}: check the permissions of {there}, or set cache_folder"


def _print_section(console: Console, title: str, facts: Facts) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(f"  {escape(name)}", escape(value))
    console.print(f"\n{escape(title)}")
    console.print(table)


def _engine_settings(engine: str, model: str) -> Settings:
    """Return settings with an engine, given by its address or as a JSON object; raises Mistake."""
    text = engine if engine.lstrip().startswith("{") else json.dumps({"url": engine})
    return object_setting("--engine", "engine", text, {"model": model, "persist": False})


def _examine_engine(settings: Settings, text: str) -> Mapping[str, str]:
    """Send a text to the engine that the settings name and return the findings; raises Failure if that fails."""
    from efim_ls.completion.models.elsewhere import fetch_elsewhere, open_elsewhere
    from model_runtime.engine.engine import GenerateJob
    from model_runtime.engine.stops import stop_rule
    from model_runtime.kv.pool import FrameId
    from model_runtime.prompt.prompt import build

    try:
        fetch_elsewhere(settings, lambda message, percent: None)
        opened = open_elsewhere(settings)
        model, engine = opened.model, opened.engine
        prompt = build(model.tokenizer, model.template, "", "", text)
        rule = stop_rule(text.rpartition("\n")[2], "", False, 1)
        found = engine.probe(GenerateJob(FrameId("doctor"), prompt, rule, ANSWERED, private=False), NEVER)
        engine.close(0)
    except (EngineError, ModelError) as error:
        raise Failure(f"the engine on {settings.engine.host} cannot be used, since {error}") from error
    return _engine_facts(settings.engine.host, found)


def _engine_facts(host: str, found: RemoteFacts) -> Mapping[str, str]:
    share = found.cached / found.tokens
    return {
        "host": host,
        "kind": found.kind,
        "model": found.model,
        "context": f"{found.context:,} tokens" if found.context else "not said",
        "block": f"{found.block} tokens: what a key computes again begins at one" if found.block else "not said",
        "cached": f"{found.cached:,} of {found.tokens:,} tokens of a prompt that came again ({share:.0%})",
        "round trip": f"{found.round_trip:.0f} ms, with at most {ANSWERED} new tokens",
    }
