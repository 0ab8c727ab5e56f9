"""A model of several languages reads, in front of the text, which of them the cursor is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efim_ls.completion.completer import Completer
from efim_ls.request import Request, Upcoming
from model_runtime.cancel import NEVER
from model_runtime.prompt.template import LANGUAGE_MARKER, find_template
from model_runtime.prompt.tokenizer import Tokenizer
from tests.engine.completion.test_complete import Make, maker
from tests.engine.persistence import adopt_frames
from tests.models import CODE, LLAMA, Tiny, make

URI = "file:///page.php"
MARKED = ("php", "cpp")
SHOWN = {"php": "php", "cpp": "cpp", "cuda-cpp": "cpp", "html": "", "": ""}  # languages by their marker


def with_markers(folder: Path) -> Path:
    """Make a tiny model whose tokenizer has a special token for each of these languages, the last ones."""
    make(folder, Tiny(vocabulary=LLAMA.vocabulary + len(MARKED)))
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    for number, language in enumerate(MARKED, LLAMA.vocabulary):
        content = LANGUAGE_MARKER.format(language)
        added = {"id": number, "content": content, "special": True, "normalized": False}
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | added)
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_markers(tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    return maker(folder)


def shown_marker(completer: Completer, request: Request) -> str:
    """Return the language whose marker follows the prefix in the prompt of a request."""
    explained: Any = completer.explain(request)
    prompt = explained["prompt"].removeprefix("<|fim_prefix|>")
    return next((each for each in MARKED if prompt.startswith(LANGUAGE_MARKER.format(each))), "")


@pytest.mark.parametrize("language", SHOWN)
def test_the_marker_is_of_the_language_at_the_cursor_or_of_which_it_is_a_dialect(made: Make, language: str) -> None:
    completer, _ = made()
    assert shown_marker(completer, Request(URI, CODE, len(CODE), language=language)) == SHOWN[language]


def test_a_template_counts_the_marker_that_a_prompt_may_have(folder: Path) -> None:
    template = find_template(Tokenizer(folder / "tokenizer.json"))
    marked = template.of(["objective-c", "cpp"])
    assert marked.prefix == (*template.prefix, LLAMA.vocabulary + MARKED.index("cpp"))
    assert template.markers == marked.markers == len(template.marker_ids) + 1
    assert template.of(["rust"]) is template


@settings(max_examples=25)
@given(
    visits=st.lists(
        st.tuples(st.sampled_from(list(SHOWN)), st.sampled_from([40, 200, len(CODE)]), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_moving_between_parts_in_other_languages_is_warm_as_cold(
    made: Make, visits: list[tuple[str, int, bool]]
) -> None:
    (warm, _), (cold, _) = made(), made()
    for language, cursor, rested in visits:
        request = Request(URI, CODE, cursor, explicit=True, language=language)
        if rested:
            assert warm.prepare(Upcoming(request, "rested"), NEVER)
        adopt_frames(cold, warm, URI)
        assert shown_marker(warm, request) == SHOWN[language]
        assert warm.complete(request, NEVER).text == cold.complete(request, NEVER).text
