"""How keys, tokens and passwords look: formats and names that issuers publish, and how values stand behind names."""

from __future__ import annotations

import re

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
