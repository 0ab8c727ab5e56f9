"""What a request takes from the workspace's other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from efim_ls.access.rules import Rules
from efim_ls.session.documents import OpenDocument, OpenDocuments
from efim_ls.session.workspace import SessionWorkspace
from efim_ls.settings import Settings
from efim_ls.usage.counters import Counters
from efim_ls.workspace.shared import SharedIndexes
from tests.unit.workspace_index.test_workspace_index import TOKENIZERS
from tests.waiting import HANG


class CountingModel:
    """What indexing needs of a completer whose prompts show no other files."""

    tokenizers, context_budget = TOKENIZERS, ()


async def test_a_document_is_completed_with_the_counts_of_all_languages_that_share_its_words(tmp_path: Path) -> None:
    (project := tmp_path.resolve() / "project").mkdir()
    (project / "store.js").write_text("const zebra = new Quagga(path, 17)\n", "utf-8")
    settings = Settings(cache_folder=str(tmp_path / "cache"))
    documents = OpenDocuments()
    workspace = SessionWorkspace(documents, SharedIndexes(lambda: False), lambda _: None)
    workspace.folders = (project.as_uri(),)
    workspace.adopt(settings, Rules(settings, workspace.folders), cast("Any", CountingModel()))
    await workspace.settled()
    for language, has_counts in (("TypeScript", True), ("javascriptreact", True), ("python", False)):
        document = OpenDocument(Counters(), (project / "new").as_uri(), language, "")
        assert (workspace.request_at(document, 0).counts is not None) is has_counts
    vue = OpenDocument(Counters(), (project / "new.vue").as_uri(), "vue", "<script lang='ts'>\n</script><style>\n")
    for each in ("typescript", "css", "python"):
        documents.add(OpenDocument(Counters(), (project / each).as_uri(), each, f"in {each}"))
    for place, language in (("'ts'>", "typescript"), ("<style>", "css"), ("</script>", "vue")):
        request = workspace.request_at(vue, vue.text.index(place) + len(place))
        assert (request.language, request.counts is not None) == (language, language == "typescript")
        assert request.others == (() if language == "vue" else (f"in {language}",))
    assert workspace.close(HANG)
