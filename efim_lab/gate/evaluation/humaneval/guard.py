"""Runs the program on stdin under limits; a separate script, started by `sandbox` only.

It guards against a model's accidents, not against an attacker: the hook lives in the same process as the program.
The program may compute and read. It may not write, delete, start processes, send signals, load C code or use a
network.
"""

import os
import sys

PASSED = 77  # exit status; a program that leaves early with 0 has not passed
SECONDS, BYTES = 5, 1 << 30  # of processor time, and of memory
REFUSED = ("os.", "socket.", "subprocess.", "ctypes.", "resource.")
HARMLESS = ("os.listdir", "os.scandir")  # importing needs them
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Raise PermissionError for any event that reaches outside the process; an audit hook."""
    writes = event == "open" and isinstance(flags := arguments[2], int) and flags & WRITING
    if writes or (event.startswith(REFUSED) and event not in HARMLESS):
        raise PermissionError(f"{event} is refused")


def limit() -> None:
    """Set the process's resource limits; they let the superuser start processes, but the hook does not."""
    import resource  # Unix only

    for kind, most in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (most, most))


def main() -> None:
    """Exit with PASSED if the program runs to its end without an exception."""
    program = sys.stdin.buffer.read()
    limit()
    sys.addaudithook(refuse)
    exec(compile(program, "program", "exec"), {"__name__": "program"})
    os._exit(PASSED)


if __name__ == "__main__":
    main()
