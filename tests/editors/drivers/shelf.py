"""Packages for pip to choose from: stubs in a folder, which can be served as an index without metadata."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zipfile import ZipFile


def stub(shelf: Path, name: str, version: str, *needs: str) -> Path:
    """Make a wheel that pip can choose; nothing is in it."""
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        *(f"Requires-Dist: {n}\n" for n in needs),
    ]
    files = {"METADATA": "".join(metadata), "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n", "RECORD": ""}
    path = shelf / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"{name}-{version}.dist-info/{file}", text)
    return path


@dataclass
class Index:
    address: str
    fetched: list[str] = field(default_factory=list[str])  # names of wheels, in the order of the requests


@contextmanager
def served(shelf: Path) -> Iterator[Index]:
    """Serve a folder's wheels as a page with links to them."""
    index = Index("")

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".whl"):
                index.fetched.append(self.path.removeprefix("/"))
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(shelf)))
    index.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
