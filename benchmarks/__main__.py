"""`make bench [TRACE=file]`: every table, then one JSON object as the last line."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from benchmarks import decoding, documents, policies, typing
from benchmarks.session import demo_session
from editor_clients.headless import trace


def main(path: Path | None = None) -> None:
    """Measure with the embedded model; policies are counted on a trace, by default the demo's own session."""
    recorded, name = (trace.read(path), path.name) if path else (demo_session(), "the demo's session")
    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "policies": policies.measure(recorded, name),
        "documents": documents.measure(),
        "decoding": decoding.measure(),
        "typing": typing.measure(),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
