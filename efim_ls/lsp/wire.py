"""Messages as bytes, and those between relays and the daemon. Imports little: relays are small processes."""

from __future__ import annotations

import re

LONGEST_HEADER = 1 << 16  # bytes of one line of a header, as in asyncio's own reader
LARGEST_BODY = 1 << 29  # bytes: a hundred times the text of the largest file that gets suggestions by default
LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,20})[ \t]*\r?\n", re.IGNORECASE)

TEXT = "efim/text"  # the relay asks for the text of an open document
ACCEPTED = "efim/accepted"  # the daemon serves a relay's client: its process, by which it can be ended if it hangs
REFUSED = "efim/refused"  # it does not, for a reason
END = "efim/end"  # the daemon tells a relay to end with an exit code
LOG = "efim/log"  # the daemon has something for the relay's stderr
STOPPED = "efim/stopped"  # the daemon ends because the user wants it to


class UnreadableHeader(Exception):
    """Behind such a header there is no way to find the next message."""


class MessageHeader:
    """The lines of one message's header, fed one after another."""

    def __init__(self) -> None:
        self.length: int | None = None  # bytes of the body
        self._seen = False

    def feed(self, line: bytes) -> bool:
        """Take a line; return whether it was the last. Raises UnreadableHeader."""
        if not line.endswith(b"\n"):
            raise UnreadableHeader("a line of a message's header is too long or cut off")
        if line.strip():
            found, self._seen = LENGTH.fullmatch(line), True
            self.length = int(found[1]) if found else self.length
            return False
        if self._seen and (self.length is None or not 0 < self.length <= LARGEST_BODY):
            raise UnreadableHeader("a message has no length that can be read")
        return self._seen


def framed(body: bytes) -> bytes:
    """Return a message with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def document_uri(params: object) -> str | None:
    """Return the URI of the document that a message is about, None if it names none."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            return uri
        case _:
            return None
