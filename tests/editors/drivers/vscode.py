"""VS Code's web server as a test's process: its own home and extensions, on a free loopback port."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import urlopen

from tests.waiting import eventually

from ..fetching.node import NODE, environment
from ..fetching.part import ROOT
from .conversation import Conversation, recording
from .processes import RELAY, descendants, end

PYTHON = ROOT / ".venv" / "bin" / "python"
TIDY, RESTART, USER_SETTINGS = "Control+Alt+Shift+T", "Control+Alt+Shift+R", "Control+Alt+Shift+U"
CLOSED = [
    "efim-ls.endSnooze",
    "notifications.clearAll",
    "workbench.action.closePanel",
    "workbench.action.revertAndCloseActiveEditor",  # most tests have changed one file, and nothing is asked then
    "workbench.action.closeAllEditors",
]
KEYS = [
    {"key": "alt+\\", "command": "editor.action.inlineSuggest.trigger"},  # VS Code itself has no key for this
    {"key": "ctrl+alt+shift+t", "command": "runCommands", "args": {"commands": CLOSED}},
    {"key": "ctrl+alt+shift+r", "command": "efim-ls.restart"},
    {"key": "ctrl+alt+shift+u", "command": "workbench.action.openSettingsJson"},
]
# The last: else a login shell says what the PATH is, and not the test.
QUIET = ("--telemetry-level", "off", "--accept-server-license-terms", "--without-connection-token")
FLAGS = (*QUIET, "--force-disable-user-env")
SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.tips.enabled": False,
    "workbench.editor.useModal": "off",
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
    home: Path
    python: Path
    said: Path

    @property
    def log(self) -> str:
        """What the server wrote on its standard streams."""
        return (self.home / "server.log").read_text("utf-8")

    def settings_path(self, of: Literal["User", "Machine"]) -> Path:
        return self.home / "data" / of / "settings.json"

    def settings_of(self, of: Literal["User", "Machine"]) -> dict[str, Any]:
        """Read the settings of the user or of the remote machine, once VS Code has written all of them."""

        def whole() -> list[dict[str, Any]]:
            with suppress(json.JSONDecodeError):
                return [json.loads(self.settings_path(of).read_text("utf-8"))]
            return []

        [settings] = eventually(whole, lambda: f"{self.settings_path(of)} is no JSON")
        return settings

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
    home.mkdir(exist_ok=True)
    python, said = recording(PYTHON, home)
    configure(home / "data", {"efim-ls.python": str(python), **settings})
    port = free_port()
    places = ("--server-data-dir", home, "--extensions-dir", extensions)
    words = [NODE, program, *flags, "--host", "127.0.0.1", "--port", str(port), *FLAGS, *places]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(words, env={**surroundings(), **env}, stdout=log, stderr=log)
        try:
            eventually(lambda: answers(port), lambda: (home / "server.log").read_text("utf-8"))
            yield VSCode(f"127.0.0.1:{port}", process, home, python, said)
        finally:
            end(process)


def configure(data: Path, ours: Mapping[str, Any]) -> None:
    """Write the user's settings and keys, and ours as the remote machine's: a user's cannot name its programs."""
    for name, value in (("User/settings", SETTINGS), ("User/keybindings", KEYS), ("Machine/settings", ours)):
        (path := data / f"{name}.json").parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), "utf-8")


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
