"""What looks like a key, a token or a password in a text, and the text without it.

No table of formats and names is complete, so what looks random counts as well. Libraries that know more take 0.4 ms a
line (detect-secrets 1.5), which a keystroke cannot wait for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from efim_ls.languages.table import LANGUAGES

# Runs of the signs that keys are made of, and the beginnings of those that issuers mark.
RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}")
FORMATS = re.compile(
    r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{12}|AIza[\w-]{30}|ATATT3|AKC[pP]|AGE-SECRET-KEY-1|EAA[A-Za-z0-9]{30}|CLOJARS_"
    r"|GOCSPX-|HRKU-|NRAK-|NRII-|PMAK-|SK[0-9a-f]{32}|AC[0-9a-f]{32}|dapi[0-9a-f]{20}|dckr_[op]at_|do[opr]_v1_"
    r"|dp_(?:pt|st|ct)_|duffel_|dt0[a-z]\d\d|eyJ[\w-]{12}|figd_|fo1_|gh[opsur]_|github_pat_|gl[a-z]{2,6}-|glsa_|glc_"
    r"|gsk_|hf_[A-Za-z]{20}|api_org_[A-Za-z]{20}|hv[bsr]_|key-[0-9a-z]{24}|lin_(?:api|oauth)_|npm_[A-Za-z0-9]{30}|ntn_"
    r"|nvapi-|ops_eyJ|pat[A-Z0-9][\w]{13}|pplx-|pscale_|pul-[0-9a-f]{20}|pypi-[\w-]{30}|r8_|rubygems_|sbp_"
    r"|secret_[A-Za-z0-9]{30}|shp[a-z]{2}_[0-9a-f]{20}|sk-[\w-]{17}|sntry[su]_|sq0[a-z]{3}-|[srp]k_(?:live|test|prod)_"
    r"|tskey-|v1_[0-9a-f]{20}|vercel_[A-Za-z0-9]{20}|whsec_|xai-|xapp-|xkeysib-|xox[a-z]-|ya29|T[A-Z0-9]{8,10}/B[A-Z0-9]{8,10}/"
)
HASHES = re.compile(r"sha(?:1|256|384|512)-")  # of packages, as lock files have them

PRIVATE_KEY = re.compile(r"-----BEGIN[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
PRIVATE_LINES = re.compile(
    r"(?:(?:\\[nrt]|[\s\"'`+,#*|>()])*+(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*|[A-Za-z0-9+/=]++))*"
)
PRIVATE_RUN = re.compile(r"[A-Za-z0-9+/=]+")
OF_USER = re.compile(r"-(?:u|-user)[ =][\"']?[^\s:\"'/]{1,64}:(?P<value>[^\s\"'@/]{4,256}+)")
IN_URL = re.compile(r"://[^\s/?#@:\"'`<>{}]{0,256}:(?P<value>[^\s/?#@\"'`<>{}]{3,512})@")

# Ends of names in lower case; lookarounds and groups would take five times as long. What a strong one names is
# secret, what another, or a `key` of something, names if it looks like that. A scheme stands before a secret.
_PASS = "pass(?:w(?:or)?d|phrase|code)"
NAME = re.compile(
    rf"(?:{_PASS}|_{_PASS}|-{_PASS}|_pass|-pass|pwd|secret|credential|mnemonic|seed_?phrase|token|authorization|key|bearer|basic"
    r"|_auth|\"auth(?=\")|_pat|_sas|_pin|_salt|\?sig|&sig|identified by)s?"
)
STRONG = ("pass", "_pass", "-pass", "pwd", "secret", "credential", "mnemonic", "seed", "identified")
SCHEMES = ("bearer", "basic")
_KEYS = (
    "api", "access", "auth", "secret", "private", "account", "shared", "encryption", "signing", "master", "license",
    "licence", "service", "client", "app", "admin", "deploy", "storage", "session", "consumer", "webhook",
)  # fmt: skip
KEYS = tuple(name + joint for name in _KEYS for joint in ("", "_", "-")) + ("?", "&")
# What stands between a name and a value: the end of the name, a field called value, a type, a sign, another source.
# With what a value stands behind, that is two ends of lines at most.
BETWEEN = re.compile(
    r"(?:_?\d+|[_-]?value)?[\"'`\])}]{0,3}(?:,?[ \t]*(?:\r?\n)?[ \t]*[\"']?value[\"']?)?"
    r"(?:[ \t]*:[ \t]*[a-z][\w.\[\]| ?]{0,40}(?==))?[ \t]*(?P<sign>=>|:=|[=!]==?|\?\?|\|\||or\b|[=:,(>])[ \t]*"
    r"(?:[\w.]{1,60}(?:[(\[][\"'][^\n\"']{0,60}[\"'][)\]]?)?[ \t]*(?:\bor\b|\?\?|\|\||,)[ \t]*|\([ \t]*(?:\r?\n)?)?",
    re.I,
)
BLOCK = re.compile(r"(?:[>|][+-]?[ \t]*)?\r?\n[ \t]+")
QUOTED = re.compile(
    r"[ \t]*[A-Za-z@$]{0,2}(?P<quote>[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,1024})(?:(?P=quote)|$)", re.M
)
BARE = re.compile(r"(?P<value>[^\s\"'`,;(){}\[\]<>]{1,512}+)(?=[ \t]*(?:$|[;<#\r]|[ \t]//))", re.M)
WITHIN = re.compile(r"(?P<value>[^\s\"'`,;(){}\[\]<>.\\]{8,512}?)(?=$|&\w+=|[\s;,)\"'`\\<])", re.M)
ARGUMENT = re.compile(r"[ \t]+(?P<value>[^\s\"'`,;(){}\[\]<>:]{8,512}+)(?=$|[\s\"'`\\])", re.M)
# What stands for a value that is elsewhere, for none, or for any.
PLACEHOLDER = re.compile(
    r"[$<{&*|!%]|\.{2}|~?\.?\.?/|(?:x+|\*+|null|none|nil|true|false|undefined|string|required|optional|changeme"
    r"|(?:your|my|the|an?|some|test|fake|dummy|example)[_-].*|https?://[^@]*)\Z|.*(?:\$\{|\{\{|#\{|\$\(|%s|%\()",
    re.I,
)
# In place of each character that must not be repeated: a control character, before which any suggestion ends, of one
# byte, so that no tokenizer makes more than one token of it.
MASK = "\x1a"
LINES, REACH = 2, 4096  # lines above and below a change, and characters of longer ones, that are looked at again
SHORTEST, SHORTEST_WEAK = 4, 8  # characters of a password, and of a less certain secret
LEAST_RANDOM, LONGEST_RANDOM = 20, 512  # characters of what looks random; more are data
MOST_SIGNS, LEAST_DIGITS = 1 / 8, 1 / 8  # of what looks random, the latter of one case; words and paths have others
LEAST_CHANGES, LEAST_CHANGES_OF_ONE_CASE = 0.34, 0.3  # between kinds of characters, per character; words have fewer

WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
SIGNS = re.compile(r"[+/_-]")
HEXADECIMAL = re.compile(r"(?:0x)?(?:[0-9a-f-]+|[0-9A-F-]+)(?:p-?\d+)?\Z")


class SecretSpan(NamedTuple):
    """Where something secret begins and ends in a text."""

    start: int
    end: int

    def moved(self, by: int) -> SecretSpan:
        """Return where it is once the text before it has grown."""
        return SecretSpan(self.start + by, self.end + by)


class PublicText:
    """The text of a document that changes, without what looks secret; as cheap to keep as its lines."""

    def __init__(self, text: str, language: str) -> None:
        """Look through a whole text."""
        self._language = language
        self._look(text)

    def follow(self, start: int, end: int, new_end: int, text: str) -> None:
        """Take up the text after an edit from `start` to `end`: only the lines around it are looked at again."""
        low, high = _above(text, start), _below(text, new_end)
        if self._has_key or "-----" in text[low:high]:
            self._look(text)
            return
        above, moved = _above(text, low), new_end - end
        found = [each.moved(above) for each in secrets_in(text[above:high], self._language)]
        before = [span for span in self._spans if span.start < low]
        after = [each.moved(moved) for each in self._spans if each.start + moved >= high]
        self._spans = before + [span for span in found if span.start >= low] + after
        self._text, self._public = text, None

    @property
    def text(self) -> str:
        """The text, as long as the document's, with `MASK` for what looks secret."""
        if self._public is None:
            self._public = _masked(self._text, self._spans)
        return self._public

    def _look(self, text: str) -> None:
        self._spans = secrets_in(text, self._language)
        self._has_key = PRIVATE_KEY.search(text) is not None
        self._text: str = text
        self._public: str | None = None


def adds_secret(text: str, language: str, start: int, end: int, added: str) -> bool:
    """Return whether what looks secret is among what an edit would add to a text, or text that was masked."""
    low, after = _above(text, start), start + len(added)
    around = text[low:start] + added + text[end : _below(text, end)]
    return MASK in added or any(
        each.start < after - low and start - low < each.end for each in secrets_in(around, language)
    )


def without_secrets(text: str, language: str) -> str:
    """Return a text, as long as it is, with `MASK` for what looks like a key, a token or a password in it."""
    return _masked(text, secrets_in(text, language))


def secrets_in(text: str, language: str) -> list[SecretSpan]:
    """Return the spans of a text that look secret, in its order, without overlaps."""
    joined = list[SecretSpan]()
    for span in sorted({*_random(text), *_named(text, LANGUAGES[language].is_code), *_marked(text)}):
        if joined and span.start < joined[-1].end:
            joined[-1] = SecretSpan(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def looks_random(run: str) -> bool:
    """Return whether a run of the signs of keys is none of words; hexadecimal ones are mostly hashes."""
    if not LEAST_RANDOM <= len(run) <= LONGEST_RANDOM or run.isalpha() or HEXADECIMAL.match(run):
        return False
    signs, digits = len(SIGNS.findall(run)), sum(map(str.isdigit, run))
    if signs > MOST_SIGNS * len(run) or not digits:
        return False
    changes = len(WORDS.findall(run)) / (len(run) - signs)
    if run.lower() != run and run.upper() != run:
        return changes >= LEAST_CHANGES
    return changes >= LEAST_CHANGES_OF_ONE_CASE and digits >= LEAST_DIGITS * len(run)


def _random(text: str) -> Iterator[SecretSpan]:
    """Yield keys in formats that are known, and what looks random."""
    for run in RUN.finditer(text):
        if (FORMATS.match(run[0]) or looks_random(run[0])) and not HASHES.match(run[0]):
            yield SecretSpan(*run.span())


def _marked(text: str) -> Iterator[SecretSpan]:
    """Yield passwords behind users, and the lines of private keys."""
    for found in OF_USER.finditer(text):
        if _is_mixed(found["value"]):
            yield SecretSpan(*found.span("value"))
    for found in IN_URL.finditer(text):
        if not PLACEHOLDER.match(found["value"]):
            yield SecretSpan(*found.span("value"))
    for begun in PRIVATE_KEY.finditer(text):
        lines = PRIVATE_LINES.match(text, begun.end())
        for run in PRIVATE_RUN.finditer(text, begun.end(), lines.end() if lines else begun.end()):
            yield SecretSpan(*run.span())


def _named(text: str, is_code: bool) -> Iterator[SecretSpan]:
    """Yield values whose names say that they are secret."""
    lower = text.replace("\u0130", "I").lower()  # of that letter alone it would have another length
    for name in NAME.finditer(lower):
        if name[0].startswith("key") and not lower.endswith(KEYS, 0, name.start()):
            continue
        value = _value(text, name, is_code)
        if value is not None:
            yield SecretSpan(*value.span("value"))


def _value(text: str, name: re.Match[str], is_code: bool) -> re.Match[str] | None:
    """Return the secret value that stands behind a name, None if there is none."""
    between = None if name[0] in SCHEMES else BETWEEN.match(text, name.end())
    at = between.end() if between else name.end()
    if value := QUOTED.match(text, at):
        return value if _is_secret(value["value"], name) else None
    if between is None:
        value = ARGUMENT.match(text, at)
        return value if value and _is_mixed(value["value"]) else None
    if not is_code and between["sign"] in ("=", ":", ":=", "=>"):
        block = BLOCK.match(text, at)
        value = BARE.match(text, block.end() if block else at)
        if value:
            return value if _is_secret(value["value"], name) else None
    if between["sign"] not in ("=", ">") or at != between.end("sign"):
        return None
    value = WITHIN.match(text, at)
    if value is None or name[0] in value["value"].lower() or not _is_mixed(value["value"]):
        return None
    return value if _is_secret(value["value"], name) else None


def _is_secret(value: str, name: re.Match[str]) -> bool:
    """Return whether a value that a name calls secret is one, and not in place of it."""
    if PLACEHOLDER.match(value) or value.lower() == name[0]:
        return False
    if name[0].startswith(STRONG):
        return len(value) >= SHORTEST and not any(map(str.isspace, value))
    return len(value) >= SHORTEST_WEAK and _is_mixed(value)


def _is_mixed(value: str) -> bool:
    """Return whether a value is no word: it has letters and digits, and no blanks."""
    has_blanks = any(map(str.isspace, value))
    return not has_blanks and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _masked(text: str, spans: list[SecretSpan]) -> str:
    if not spans:
        return text
    parts, at = list[str](), 0
    for start, end in spans:
        parts += text[at:start], MASK * (end - start)
        at = end
    return "".join((*parts, text[at:]))


def _above(text: str, at: int) -> int:
    """Return where the second line above a place begins, or a place as far above as lines are looked at."""
    furthest = max(0, at - REACH)
    for _ in range(LINES + 1):
        if (at := text.rfind("\n", furthest, at)) < 0:
            return furthest
    return at + 1


def _below(text: str, at: int) -> int:
    """Return where the second line below a place ends, or a place as far below as lines are looked at."""
    furthest = min(len(text), at + REACH)
    for _ in range(LINES + 1):
        if (end := text.find("\n", at, furthest)) < 0:
            return furthest
        at = end + 1
    return at - 1
