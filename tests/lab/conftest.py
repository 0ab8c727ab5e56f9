"""The fixtures of the engine's tests for those of the laboratory, which compute on one thread, too."""

from tests.engine.conftest import decoder, folder, qwen_folder, tokenizer

__all__ = ["decoder", "folder", "qwen_folder", "tokenizer"]
