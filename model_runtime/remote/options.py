"""What a user says of an engine on another machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from model_runtime.errors import EngineError

Kind = Literal["", "vllm", "llama.cpp", "openai"]


@dataclass(frozen=True)
class RemoteOptions:
    """A server, its dialect, and the text that it may get; without a `url` there is none.

    `kind` is found out if empty, and `model` if the server has one alone. Its key is in an environment variable or a
    file. `cache_salt` and `priority` go to vLLM as they are. `wait_seconds` is how long an answer that this machine
    gives waits for the server's. Private text is sent only if `private`.
    """

    url: str = ""
    kind: Kind = ""
    model: str = ""
    key_variable: str = ""
    key_file: str = ""
    wait_seconds: float = 0.3
    private: bool = False
    cache_salt: str = ""
    priority: int = 0

    @property
    def host(self) -> str:
        """The server's name and port, for people."""
        return urlsplit(self.url).netloc

    @property
    def base(self) -> str:
        """The address without the version that OpenAI's clients put behind it."""
        return self.url.rstrip("/").removesuffix("/v1")

    def key(self) -> str:
        """Return the key that the server wants, empty if none is named; EngineError if it cannot be had."""
        if self.key_variable:
            if not (key := os.environ.get(self.key_variable, "").strip()):
                raise EngineError(
                    f"the environment variable {self.key_variable} has no key for {self.host}: set it, or name a "
                    "file as 'key_file' in the setting 'engine'"
                )
            return key
        if not self.key_file:
            return ""
        try:
            return Path(self.key_file).expanduser().read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise EngineError(
                f"the key for {self.host} cannot be read from {self.key_file} ({type(error).__name__}): "
                "correct 'key_file' in the setting 'engine'"
            ) from None
