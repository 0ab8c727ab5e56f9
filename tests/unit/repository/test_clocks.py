"""Where time decides, it decides when an answer comes, or what its inputs are, and nowhere what they give."""

from __future__ import annotations

from pathlib import Path

from tests.source.timing import found_in

ROOT = Path(__file__).parents[3]
ROOMS = ("efim_ls/access", "efim_ls/completion", "efim_ls/next_edit", "efim_ls/session", "efim_ls/text",
         "efim_ls/workspace", "model_runtime", "kv_store")  # fmt: skip
MEASURES = "measures"  # and nothing follows from it
READERS = {
    "efim_ls/completion/answerers/elsewhere.py": "how long a better answer from elsewhere is waited for",
    "efim_ls/completion/model_in_use.py": "when a model that nobody uses leaves memory",
    "efim_ls/completion/completer.py": "how long closing may write",
    "efim_ls/completion/answerers/costs.py": MEASURES,
    "efim_ls/session/documents.py": "which edits are one step, for next edits",
    "efim_ls/session/engine_thread.py": "whose work comes first",
    "efim_ls/completion/idle_budget.py": "how much is computed ahead",
    "efim_ls/workspace/excerpts/workspace_excerpts.py": "how often excerpts are looked for, at rest",
    "efim_ls/workspace/index.py": "how often its progress is told",
    "efim_ls/workspace/index_file.py": "how long a locked file is waited for",
    "efim_ls/workspace/modules/source.py": MEASURES,
    "efim_ls/workspace/modules/table.py": "how often modules are published while they are read",
    "efim_ls/workspace/thread.py": "how long indexing waits for a pause",
    "model_runtime/engine/decode.py": MEASURES,
    "model_runtime/engine/drafts.py": "how many tokens a pass computes",
    "model_runtime/engine/local.py": MEASURES,
    "model_runtime/kv/pool.py": "which place leaves memory first",
    "model_runtime/loading/pass_times.py": MEASURES,
    "model_runtime/machine.py": MEASURES,
    "model_runtime/remote/answer.py": MEASURES,
    "model_runtime/remote/engine.py": MEASURES,
    "kv_store/atomic_files.py": "which files were left behind",
    "kv_store/disk/disk_tier.py": "what was used last",
    "kv_store/open.py": "which stores nobody uses",
    "kv_store/shared/shared_tier.py": "whether to read a block or to compute it",
    "kv_store/shared/shelf.py": "what is old",
    "kv_store/store.py": "whether to read a block or to compute it",
}


def test_each_file_that_reads_a_clock_says_what_for() -> None:
    """Ask of a new one whether an answer's text could follow from it: docs/protocol.md names those where it does."""
    paths = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    found = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if any("clock" in done for _, done in found_in(path.read_text("utf-8")))
    }
    assert found == set(READERS)
