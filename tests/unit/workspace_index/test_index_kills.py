"""An index whose process is killed while it writes: whole, or made again, and what it has is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.workspace_index.conftest import TOKENIZER, Open, has_name, indexed
from tests.waiting import HANG

KILLS = 100
FILES = [indexed(f"/project/{n}.py", f"def name_{n}():\n    return {n}\n" * 40) for n in range(40)]

# One process is killed again and again: each of its children inherits what took seconds to import.
SCRIPT = """if True:
    import os, signal, sys
    from tests.unit.workspace_index import conftest as c
    from tests.unit.workspace_index.test_index_kills import FILES
    path = c.Path(sys.argv[1])
    for number in range(int(sys.argv[2])):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            index = c.IndexFile(path, c.ORIGIN, c.TOKENIZERS, lambda said: os._exit(3), keeps="passages")
            for round in range(10 ** 9):
                for each in FILES:
                    index.put([each])
                    os.write(write, b".")
                index.remove([each.file.path for each in FILES[::2]], for_good=round % 2 == 0)
        os.close(write)
        for _ in range(1 + number * 7 % 30):
            os.read(read, 1)
        if number % 3:
            os.kill(child, signal.SIGKILL)
        else:
            import time
            time.sleep(number % 5 / 1000)  # into the next transaction
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(read)
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        index = c.IndexFile(path, c.ORIGIN, c.TOKENIZERS, print, keeps="passages")
        known = {each.digest: each.content.ids.tolist() for each in FILES}
        found = dict(index.ids(known))
        assert all(known[digest] == ids.tolist() for digest, ids in found.items())
        assert {entry.digest for entry in index.entries().values()} <= found.keys()
        print(len(found), index.generation)
        index.close()
"""


def test_killed_a_hundred_times_it_stays_whole(place: Path, open_index: Open, reports: list[str]) -> None:
    command = [sys.executable, "-c", SCRIPT, str(place), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert (done.returncode, len(lines)) == (0, KILLS), done.stdout[-500:] + done.stderr[-2000:]
    assert {generation for _, generation in lines} == {"0"} and max(int(count) for count, _ in lines) > 20
    index = open_index()
    index.put(FILES)
    assert len(index.entries()) == len(FILES) and has_name(index, "name_39") and reports == []
    assert all(
        ids.tolist() == TOKENIZER.encode("def name_3():\n    return 3\n" * 40).tolist()
        for _, ids in index.ids([FILES[3].digest])
    )
