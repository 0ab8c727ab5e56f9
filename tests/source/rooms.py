"""Which tests that drive a process tell most of which rooms of the product.

What a process runs, its tests do not import; so imports, which `tests.affected` follows, do not lead to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

DRIVING = ("tests/lsp", "tests/http", "tests/shared", "tests/editors")
UNSEEN = (".md", ".png", ".svg")  # files that no process reads
SETTINGS = "lsp/connection/test_settings_and_model.py"
GHOST_TEXT = "lsp/editing/test_completion.py::test_a_file_gets_ghost_text_at_the_cursor"
TYPING_ON = "lsp/commands/test_headless.py::test_typing_on_recomputes_next_to_nothing"
LIKELY_BEGINNING = "lsp/editing/test_likely_beginning.py"
LEFT_ARENA = "lsp/storing/test_persistence.py::test_a_closed_file_whose_arena_was_taken_comes_back"
OTHER_FILES = "lsp/workspace/test_workspace_files.py::test_a_phrase_of_a_file_that_is_not_open_is_completed"
WEIGHTS = "lsp/storing/test_weights.py"
# By room, the most telling test first. What lies in no room that is named here is part of the room above it.
ROOMS = {
    "efim_ls": (SETTINGS, "lsp/commands/test_cli.py::test_complete_prints_what_fits_at_a_place"),
    "efim_ls/access": (
        "lsp/connection/test_switched_off.py::test_each_rule_holds_at_once_and_ends_at_once",
        "lsp/commands/suggestions/test_refused_places.py",
    ),
    "efim_ls/commands": (
        "lsp/commands/test_cli.py::test_complete_prints_what_fits_at_a_place",
        "lsp/commands/suggestions/test_context_command.py",
        "lsp/commands/test_calibrate_command.py",
    ),
    "efim_ls/completion": (GHOST_TEXT, TYPING_ON, LIKELY_BEGINNING),
    "efim_ls/completion/filters": (GHOST_TEXT, "lsp/tasks/test_by_key.py"),
    "efim_ls/completion/models": (
        LEFT_ARENA,
        "lsp/storing/test_persistence.py::test_what_becomes_private_is_taken_from_disk",
    ),
    "efim_ls/completion/planning": (TYPING_ON, "lsp/editing/test_ahead.py"),
    "efim_ls/completion/suggestions": (LIKELY_BEGINNING, "lsp/commands/test_counts.py"),
    "efim_ls/daemon": (
        "lsp/daemon/test_coming_and_going.py::test_clients_share_a_model_and_nothing_of_their_texts",
        "lsp/daemon/test_daemon.py::test_a_killed_daemon_costs_no_letter_and_no_answer",
    ),
    "efim_ls/http": ("http/test_dialects.py", "http/test_reuse.py", "http/test_cancelling.py"),
    "efim_ls/lsp": (
        "lsp/editing/test_menu.py",
        "lsp/connection/test_lifecycle.py::test_what_is_advertised_to_whom",
        "lsp/editing/test_malformed_edits.py",
        "lsp/sent/test_keywords_of_calls.py",
        "lsp/sent/test_names_of_servers.py",
        "lsp/sent/test_selected_item.py",
        "lsp/sent/test_notebooks.py",
    ),
    "efim_ls/next_edit": ("lsp/next_edit/test_inline_edits.py",),
    "efim_ls/session": ("lsp/editing/test_menu.py", "lsp/connection/test_status.py", LIKELY_BEGINNING),
    "efim_ls/text": (
        "lsp/editing/test_message_fuzz.py",
        "lsp/editing/test_encodings.py",
        "lsp/sent/test_line_ends.py",
        "lsp/sent/test_mixed_files.py",
    ),
    "efim_ls/usage": (
        "lsp/commands/test_counts.py",
        "lsp/commands/test_stats_command.py::test_json_has_all_counts_of_periods_and_languages",
    ),
    "efim_ls/workspace": (
        OTHER_FILES,
        "lsp/workspace/test_workspace_files.py::test_an_index_outlives_its_server",
    ),
    "efim_ls/workspace/excerpts": (
        "lsp/workspace/test_excerpts_of_files.py::test_signatures_of_the_workspace_stand_in_the_prompt",
    ),
    "efim_ls/workspace/imports": (
        "lsp/next_edit/test_offered_imports.py::test_a_class_of_the_workspace_is_imported",
        "lsp/next_edit/test_offered_calls.py::test_the_calls_of_one_file_after_the_other_are_offered",
    ),
    "efim_ls/workspace/modules": ("lsp/editing/test_presets.py",),
    "model_runtime": (GHOST_TEXT, TYPING_ON),
    "model_runtime/checkpoint": (
        WEIGHTS,
        "lsp/storing/test_hub_model.py"
        "::test_a_model_is_fetched_with_progress_and_completes_and_is_there_the_next_time",
    ),
    "model_runtime/checkpoint/gguf": ("lsp/storing/test_gguf_model.py",),
    "model_runtime/counts": ("lsp/editing/test_other_files.py", OTHER_FILES),
    "model_runtime/decoder": (GHOST_TEXT, WEIGHTS),
    "model_runtime/engine": (GHOST_TEXT, TYPING_ON, LIKELY_BEGINNING),
    "model_runtime/kv": (
        TYPING_ON,
        LEFT_ARENA,
        "lsp/storing/test_persistence.py::test_int8_is_told_and_exact_servers_never_see_it",
    ),
    "model_runtime/loading": (SETTINGS, WEIGHTS),
    "model_runtime/prompt": (GHOST_TEXT, "lsp/editing/test_other_languages.py"),
    "model_runtime/remote": ("lsp/connection/test_engine_elsewhere.py",),
    "kv_store": (LEFT_ARENA,),
    "kv_store/disk": ("lsp/storing/test_persistence_failures.py::test_any_damage_leaves_the_text_as_it_is",),
    "kv_store/shared": ("shared/test_shared_completions.py", "shared/test_shared_places.py"),
    "editor_clients/headless": ("lsp/commands/test_headless.py",),
    "editor_clients/neovim": ("editors/test_neovim.py", "editors/next_edit/test_neovim_next_edits.py"),
    "editor_clients/nvim-lspconfig": ("editors/test_neovim_installed.py::test_the_file_for_lspconfig_is_enough",),
    "editor_clients/vscode": (
        "editors/test_vscode_inside.py",
        "editors/test_vscode.py::test_tab_takes_the_ghost_text",
    ),
}
# What takes longer, or tells what those tell sooner, is for `make test`.
OTHERS = (
    "lsp/commands/suggestions/test_complete_command.py",
    "lsp/commands/test_cache_command.py",
    "lsp/commands/test_completion_command.py",
    "lsp/commands/test_doctor_command.py",
    "lsp/commands/test_gguf_files_command.py",
    "lsp/commands/test_models_command.py",
    "lsp/commands/test_torch_stays_out.py",
    "lsp/connection/test_clients.py",
    "lsp/connection/test_hostile_clients.py",
    "lsp/connection/test_larger_model.py",
    "lsp/connection/test_secrets_stay.py",
    "lsp/daemon/test_dying_daemons.py",
    "lsp/editing/test_leaves_the_machine_usable.py",
    "lsp/editing/test_session.py",
    "lsp/tasks/test_everyday_tasks.py",
    "lsp/workspace/test_entered_files.py",
    "http/test_hostile_requests.py",
    "http/test_real_clients.py",
    "http/test_recorded_sessions.py",
    "http/test_serve_command.py",
    "http/test_who_may_ask.py",
    "shared/test_shared_age.py",
    "shared/test_shared_cache_command.py",
    "shared/test_shared_failures.py",
    "shared/test_shared_strangers.py",
    "shared/test_shared_tls.py",
    "editors/elsewhere/test_neovim_elsewhere.py",
    "editors/names/test_neovim_names.py",
    "editors/names/test_vscode_names.py",
    "editors/elsewhere/test_vscode_elsewhere.py",
    "editors/explanations/test_neovim_explain.py",
    "editors/explanations/test_vscode_explain.py",
    "editors/next_edit/test_neovim_calls.py",
    "editors/next_edit/test_vscode_calls.py",
    "editors/next_edit/test_vscode_next_edits.py",
    "editors/test_fetching.py",
    "editors/test_neovim_readme.py",
    "editors/test_vscode_installing.py",
    "editors/test_vscode_lifecycle.py",
    "editors/test_vscode_menu.py",
)


def process_tests(changes: Iterable[str], most: int | None = None) -> set[str]:
    """Return the tests of the rooms where `changes` lie, at most the `most` most telling ones of each room."""
    rooms = {room for change in changes if (room := room_of(PurePosixPath(change)))}
    return {f"tests/{test}" for room in rooms for test in ROOMS[room][:most]}


def room_of(path: PurePosixPath) -> str | None:
    """Return the room of a file, if it is one that a process reads."""
    folders = () if path.suffix in UNSEEN else map(str, path.parents)
    return next((folder for folder in folders if folder in ROOMS), None)
