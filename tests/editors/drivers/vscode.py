"""VS Code's web server as a test's process: its own home and extensions, on a free loopback port."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.waiting import eventually

from ..fetching.node import NODE, environment
from ..fetching.part import ROOT
from .conversation import Conversation, recording
from .processes import RELAY, descendants, end

PYTHON = ROOT / ".venv" / "bin" / "python"
KEYS = {"alt+\\": "trigger"}  # VS Code itself has no key for this
# The last: else a login shell says what the PATH is, and not the test.
QUIET = ("--telemetry-level", "off", "--accept-server-license-terms", "--without-connection-token")
FLAGS = (*QUIET, "--force-disable-user-env")
SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.tips.enabled": False,
    "chat.disableAIFeatures": True,
    "security.workspace.trust.enabled": False,
    "extensions.autoUpdate": False,
    "files.autoSave": "off",  # in a browser VS Code saves after a second, over what a test has written meanwhile
    "editor.minimap.enabled": False,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.accessibilitySupport": "off",
    "git.enabled": False,
}


@dataclass(frozen=True)
class VSCode:
    """A running server, and where what its extension and the language server say to each other is written."""

    host: str
    process: subprocess.Popen[bytes]
    said: Path

    @property
    def log(self) -> str:
        """What the server wrote on its standard streams."""
        return self.said.with_name("server.log").read_text("utf-8")

    @property
    def authority(self) -> str:
        """The prefix of file names for the page."""
        return f"vscode-remote://{self.host}"

    @property
    def conversation(self) -> Conversation:
        """The messages so far."""
        return Conversation.read(self.said)

    def language_servers(self) -> list[int]:
        """Return the process ids of what VS Code started as language servers."""
        return [pid for pid, words in descendants(self.process.pid).items() if words.endswith(RELAY)]


def install(program: Path, extensions: Path, vsix: Path) -> None:
    home = extensions.with_name("installing")
    words = ("--extensions-dir", extensions, "--server-data-dir", home, "--install-extension", vsix)
    subprocess.run([NODE, program, *words], env=surroundings(), check=True, capture_output=True)


@contextmanager
def running(
    program: Path, extensions: Path, home: Path, settings: Mapping[str, Any], env: Mapping[str, str], *flags: str
) -> Iterator[VSCode]:
    """Run a server with these settings; everything it started ends with it."""
    home.mkdir()
    python, said = recording(PYTHON, home)
    configure(home / "data", {"efim-ls.python": str(python), **settings})
    port = free_port()
    places = ("--server-data-dir", home, "--extensions-dir", extensions)
    words = [NODE, program, *flags, "--host", "127.0.0.1", "--port", str(port), *FLAGS, *places]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(words, env={**surroundings(), **env}, stdout=log, stderr=log)
        try:
            eventually(lambda: answers(port), lambda: (home / "server.log").read_text("utf-8"))
            yield VSCode(f"127.0.0.1:{port}", process, said)
        finally:
            end(process)


def configure(data: Path, ours: Mapping[str, Any]) -> None:
    """Write the settings as those of the remote machine: a user's own cannot name its programs."""
    keys = [{"key": key, "command": f"editor.action.inlineSuggest.{name}"} for key, name in KEYS.items()]
    files = {"User/settings.json": SETTINGS, "User/keybindings.json": keys, "Machine/settings.json": ours}
    for name, value in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(json.dumps(value), "utf-8")


def surroundings() -> dict[str, str]:
    return {**environment(), "EXTENSIONS_GALLERY": "{}"}  # looks nothing up in a marketplace


def answers(port: int) -> bool:
    try:
        return urlopen(f"http://127.0.0.1:{port}/version").status == 200
    except URLError:
        return False


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]
