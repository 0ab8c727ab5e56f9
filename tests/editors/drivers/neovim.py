"""A real Neovim, driven as a user would over its RPC, with the plugin and the real server."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvim

from tests.waiting import HANG, T, eventually

from .processes import descendants, gone

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "editor_clients" / "neovim"
GHOSTS = ("efim_ls.ghost", "nvim.lsp.inline_completion")  # names of namespaces of extmarks
LOAD = f'vim.opt.rtp:prepend("{PLUGIN}")\n'
# A Python file's own plugin looks for a Python with pynvim on the PATH, which takes a second, and ours needs none.
PYTHONLESS = ("--cmd", "let g:loaded_python3_provider = 0")
SETUP = LOAD + 'require("efim_ls").setup({ OPTIONS })\n'

# What was on the screen at each redraw, how suggestions were asked for, what was answered to which text, what the
# server was told and what the user; defined before the plugin is loaded.
RECORDER = """
_G.drawn, _G.asked, _G.answered, _G.notified, _G.notices = {}, {}, {}, {}, {}
vim.notify = function(message)
  table.insert(_G.notices, message)
end
vim.api.nvim_create_autocmd("LspNotify", {
  callback = function(event)
    table.insert(_G.notified, { method = event.data.method, params = event.data.params })
  end,
})
vim.api.nvim_set_decoration_provider(vim.api.nvim_create_namespace("recorder"), {
  on_win = function(_, win, buf)
    local col = vim.api.nvim_win_get_cursor(win)[2]
    local record = { line = vim.api.nvim_get_current_line():sub(1, col), ghosts = {} }
    for name, ns in pairs(vim.api.nvim_get_namespaces()) do
      if name == "efim_ls.ghost" or name == "nvim.lsp.inline_completion" then
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buf, ns, 0, -1, { details = true })) do
          local lines = { { mark[4].virt_text[1] } }
          vim.list_extend(lines, mark[4].virt_lines or {})
          table.insert(record.ghosts, table.concat(vim.tbl_map(function(line) return line[1][1] end, lines), "\\n"))
        end
      end
    end
    table.insert(_G.drawn, record)
  end,
})
vim.api.nvim_create_autocmd("LspAttach", {
  once = true,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    local request, takes_self = client.request, vim.fn.has("nvim-0.11")
    client.request = function(...)
      local arguments = { ... }
      local method, handler = arguments[1 + takes_self], arguments[3 + takes_self]
      if method == "textDocument/inlineCompletion" then
        local line = vim.api.nvim_get_current_line():sub(1, vim.api.nvim_win_get_cursor(0)[2])
        table.insert(_G.asked, arguments[2 + takes_self].context.triggerKind)
        arguments[3 + takes_self] = function(err, answer, context)
          for _, item in ipairs(answer and answer.items or {}) do
            table.insert(_G.answered, { line = line, text = item.insertText })
          end
          handler(err, answer, context)
        end
      end
      return request(unpack(arguments, 1, 5))
    end
  end,
})
"""

FLOATING = """
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(window).relative ~= "" then
    return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false), "\\n")
  end
end
return ""
"""


@dataclass
class Neovim:
    api: pynvim.Nvim
    folder: Path

    def until(self, what: str, find: Callable[[], T]) -> T:
        """Wait for a true value, and return it."""
        return eventually(find, lambda: f"no {what}; {self.lines}, {self.ghosts}, {self.notices}, {self.explanation}")

    def lua(self, code: str, *arguments: object) -> Any:
        return self.api.exec_lua(code, *arguments)

    def efim(self, call: str) -> Any:
        return self.lua(f'return require("efim_ls").{call}')

    def type(self, *keys: str) -> None:
        for each in keys:
            self.api.input(each)

    def run(self, command: str) -> None:
        """Run a command after the keys that were typed: what is asked over RPC may come before them."""
        self.type(f"<Cmd>{command}<CR>")

    def edit(self, name: str, text: str) -> None:
        """Edit a new file, at its end."""
        path = self.folder / name
        path.write_text(text, "utf-8")
        self.lua("_G.wanted = ...", str(path))
        self.type("<Esc>")
        self.run("lua vim.cmd('silent edit ' .. wanted)")
        self.type("G")

    def ready(self) -> None:
        self.until("a server that is ready", lambda: self.efim("status()").startswith("efim ready"))

    def served(self) -> bool:
        return bool(self.lua("return #vim.lsp.get_clients({ bufnr = 0 }) > 0"))

    def request(self, method: str, **params: object) -> Any:
        """Return the server's answer to a request about the current buffer."""
        asked = (
            "local answers = vim.lsp.buf_request_sync(0, ...)\nreturn vim.iter(vim.tbl_values(answers)):next().result"
        )
        uri = self.lua("return vim.uri_from_bufnr(0)")
        return self.lua(asked, method, {"textDocument": {"uri": uri}, **params}, 1000 * int(HANG))

    def told(self, method: str) -> list[Any]:
        """Return the parameters of every notification of a method."""
        return [each["params"] for each in self.lua("return _G.notified") if each["method"] == method]

    @property
    def lines(self) -> list[str]:
        return self.api.current.buffer[:]

    @property
    def notices(self) -> str:
        """The messages that the user saw."""
        return "\n".join(self.lua("return _G.notices"))

    @property
    def floating(self) -> str:
        """The text of the floating window."""
        return self.lua(FLOATING)

    @property
    def explanation(self) -> str:
        """The text of the window that `:Efim explain` opens."""
        shown = [each.buffer for each in self.api.windows if each.buffer.name == "efim-ls://explain"]
        return "\n".join(shown[0][:]) if shown else ""

    @property
    def ghosts(self) -> list[str]:
        """The ghost text of each extmark."""
        marks = [
            mark
            for name, namespace in self.api.api.get_namespaces().items()
            if name in GHOSTS
            for mark in self.api.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
        ]
        return ["\n".join(map(text_of, [mark[3]["virt_text"], *mark[3].get("virt_lines", [])])) for mark in marks]

    def ghost(self, *, other_than: str = "") -> str:
        """Wait for ghost text, and return it."""
        return self.until("ghost text", lambda: [each for each in self.ghosts if each != other_than])[0]

    def line(self, what: str) -> None:
        self.until(f"the line {what!r}", lambda: self.api.current.line == what)


def text_of(chunks: Sequence[Sequence[str]]) -> str:
    return "".join(chunk[0] for chunk in chunks)


def server_command(folder: Path) -> Path:
    """Return a folder to put first on the PATH, with an `efim-ls` that runs this checkout."""
    program = folder / "bin" / "efim-ls"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m efim_ls "$@"\n', "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program.parent


def environment(folder: Path) -> dict[str, str]:
    """Return our environment, with separate folders for what Neovim keeps; the server's is that of all tests."""
    homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "DATA", "STATE")}
    path = f"{server_command(folder)}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **homes, "PATH": path, "NVIM_LOG_FILE": str(folder / "nvim.log"), "OMP_NUM_THREADS": "1"}


@contextmanager
def neovim(program: Path, folder: Path, init: str, *arguments: str) -> Iterator[Neovim]:
    """Run Neovim with this as its init.lua; the server that it starts ends with it."""
    (folder / "init.lua").write_text("vim.cmd('filetype plugin indent on')\n" + init, "utf-8")
    words = [str(program), "--headless", "--embed", "-n", "--clean", *PYTHONLESS, "-u", str(folder / "init.lua")]
    api = attach([*words, *arguments], environment(folder))
    try:
        api.ui_attach(100, 30, rgb=True)  # without a screen Neovim redraws nothing
        yield Neovim(api, folder)
    finally:
        end(api)


def end(api: pynvim.Nvim) -> None:
    """End Neovim, and wait until all that it started has ended."""
    below = descendants(api.funcs.getpid())
    with suppress(OSError, EOFError):
        api.command("qa!")
    api.close()
    eventually(lambda: all(map(gone, below)), lambda: f"Neovim left some of {below}")


def attach(words: list[str], env: dict[str, str]) -> pynvim.Nvim:
    """Set our own environment, because pynvim passes it on to Neovim."""
    before = dict(os.environ)
    os.environ.update(env)
    try:
        return pynvim.attach("child", argv=words)
    finally:
        os.environ.clear()
        os.environ.update(before)
