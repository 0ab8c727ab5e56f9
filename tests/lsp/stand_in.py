"""A server whose model does what a document says, for what no real model can be relied on to do.

A line `# say TEXT` in a document makes TEXT (with \n for line ends) the suggestion, `# type TEXT` what of TEXT does
not stand on the cursor's line yet, and each `# or TEXT` an alternative where the user asks. `# block` makes the
request run until it is told to stop, `# deaf` never lets it stop, `# crash` makes it fail, `# explicit` makes it say
whether the user asked. `# sure P` is how sure it is of TEXT, which it does not say below the least that is asked for.
What was replaced last is offered at its next place, as the next edit.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from efim_ls.access.reasons import without_prompt
from efim_ls.completion.suggestions.levels import LEVELS
from efim_ls.lsp.server import serve
from efim_ls.request import Ahead, Answer, Costs, Milliseconds, Request, Upcoming
from efim_ls.session import prefetch
from efim_ls.session.loader import Progress, nothing_to_fetch
from efim_ls.settings import Settings
from model_runtime.cancel import Cancel
from model_runtime.errors import ModelError
from model_runtime.prompt.context import ContextBudget

COSTS = Costs(head=3, recomputed=5, reused=7, ms=Milliseconds(total=2.0))


class StandIn:
    tokenizers = None

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.forgotten: list[str] = []
        self.foreseen: list[tuple[str, str]] = []
        self.kept: list[str] = []

    def complete(self, request: Request, cancel: Cancel) -> Answer:
        if "# block" in request.text:
            from tests.waiting import eventually  # found once the path is set

            eventually(cancel, "the request is not cancelled")
            return Answer("", COSTS, "superseded")
        if "# deaf" in request.text:
            compute_for_ever()
        if "# crash" in request.text:
            raise ValueError(request.text)
        if "# explicit" in request.text:
            return Answer(str(request.explicit), COSTS)
        text, sure = said(request), re.search(r"# sure (\S+)", request.text)
        confidence = float(sure[1]) if sure else None
        least = LEVELS[request.least] if isinstance(request.least, str) else request.least
        if confidence is not None and confidence < least:
            return Answer("", COSTS, "low confidence", confidence=confidence, least=least)
        others = re.findall(r"# or (.*)", request.text) if request.explicit else ()
        return Answer(text, COSTS, None if text else "empty", tuple(others), confidence)

    def prepare(self, place: Upcoming, cancel: Cancel) -> bool:
        request = place.request
        what = "opened" if place.because == "opened" else request.text[: request.cursor]
        return self.work_ahead(request.uri, what, cancel)

    def notice(self, language: str) -> str | None:
        return None

    @property
    def context_budget(self) -> ContextBudget:
        return ()

    def work_ahead(self, uri: str, what: str, cancel: Cancel) -> bool:
        if "# fail ahead" in what:
            raise ValueError(what)
        self.foreseen.append((uri, what))
        return not cancel()

    def describe_for(self, language: str) -> dict[str, object]:
        return {}

    def rest(self, seconds: float) -> None: ...

    def save(self, uri: str, cancel: Cancel) -> bool:
        self.kept.append(uri)
        return True

    def flush(self, seconds: float) -> bool:
        return True

    def answering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def open_elsewhere(self, progress: Progress) -> None: ...

    def allow(self, seconds: float) -> None: ...

    def close(self, seconds: float, then: Settings | None = None) -> bool:
        return True

    @property
    def tiers(self) -> list[dict[str, object]]:
        return []

    @property
    def ahead(self) -> Ahead:
        return Ahead(len(self.foreseen), 0, float(len(self.foreseen)))

    def explain(self, request: Request, answered: Answer | None) -> dict[str, object]:
        if "# crash" in request.text:
            raise ValueError(request.text)
        seen = {"forgotten": self.forgotten, "foreseen": self.foreseen, "kept": self.kept}
        return without_prompt() | {"prompt": request.text[: request.cursor], "reason": None, **seen}

    def forget_suggestions(self) -> None:
        pass

    def close_document(self, uri: str, save: bool) -> None:
        if "crash" in uri:
            raise ValueError("".join(["sec", "ret"]))
        self.forgotten.append(uri)

    def describe(self) -> dict[str, object]:
        return {"model": self.settings.model, "threads": self.settings.threads}


def said(request: Request) -> str:
    if say := re.search(r"# say (.*)", request.text):
        return say[1].replace("\\n", "\n")
    line = request.text[: request.cursor].rpartition("\n")[2]
    typing = re.search(r"# type (.*)", request.text)
    return typing[1].removeprefix(line) if typing and typing[1].startswith(line) else ""


def compute_for_ever() -> NoReturn:
    import torch  # as a model would: its threads do not outlive the interpreter without a crash

    print("computing")
    while True:
        torch.matmul(torch.ones(64, 64), torch.ones(64, 64))


def load(settings: Settings, progress: Progress) -> Any:
    """Load nothing; from a model `gate:PATH` only once somebody writes to the pipe at PATH."""
    print("stray print")
    os.write(1, b"stray write\n")
    progress("half way", 50)
    if settings.model == "missing":
        raise ModelError("there is no model called missing; choose another")
    if settings.device == "cuda":
        raise ModelError("there is no GPU; choose another device")
    if settings.model == "broken":
        raise ValueError(settings.model)
    if settings.model.startswith("gate:"):
        with open(settings.model[5:]) as pipe:
            pipe.read()
    return StandIn(settings)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))  # wherever it is started: tests are no installed package
    from tests.lsp.one_rule import use
    from tests.waiting import HANG

    prefetch.STILL = HANG  # until a test asks for all to be settled
    use()
    sys.exit(serve(int(sys.argv[1]) if sys.argv[1:] else None, load, nothing_to_fetch))
