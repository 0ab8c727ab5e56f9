"""What an editor puts right of the cursor by itself: closing brackets, quotes and punctuation."""

import re

CLOSING = ")]}>\"'`"
PUNCTUATION = CLOSING + ",;:"
_ONLY_PUNCTUATION = re.compile(rf"[\s{re.escape(PUNCTUATION)}]*")


def is_closers(rest: str) -> bool:
    """Tell whether the rest of a line is blank or only closers and punctuation: it stays out of the prompt."""
    return _ONLY_PUNCTUATION.fullmatch(rest) is not None
