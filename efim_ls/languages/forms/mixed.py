"""Files with parts in several languages: HTML and components with scripts, templates, and PHP in HTML."""

from __future__ import annotations

import re
from functools import partial

from tree_sitter import Node

from efim_ls.languages.forms.language import MixedGrammar

# Languages of scripts by their attributes `lang` and `type`; others are data or templates.
_SCRIPTS = {
    "babel": "javascriptreact", "coffee": "coffeescript", "coffeescript": "coffeescript", "ecmascript": "javascript",
    "javascript": "javascript", "js": "javascript", "jsx": "javascriptreact", "module": "javascript",
    "ts": "typescript", "tsx": "typescriptreact", "typescript": "typescript",
}  # fmt: skip
_STYLES = {"": "css", "pcss": "css", "postcss": "css"}  # others are called as they are
_KIND = re.compile(r"^(?:text|application)/(?:x-)?")
_SAID = re.compile(r"(?<![\w:.@-])(lang|type)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_CLOSING_TAG = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
_ELEMENT_MARKS = r"<[</\w-]*[\s/>]?|[>\"']"
_HIDDEN = frozenset(
    {"attribute", "attribute_name", "attribute_value", "comment", "quoted_attribute_value", "raw_text"}
)
# The head of an Astro file ends at a line that begins with dashes, but not in a string or a comment.
_HEAD = re.compile(
    r"\A\s*---(?P<typescript>(?:`(?:\\.|[^`\\])*`|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/|.)*?)"
    r"(?:^---|\Z)",
    re.DOTALL | re.MULTILINE,
)
_DIRECTIVE_END = re.compile(r"(?<!%)[-_=]?%>")
_PHP_END = re.compile(r"\?>")


def _in_element(script: str, sign: re.Match[str], leaf: Node) -> str | None:
    """Return the language in an element whose tag is a sign; a script without an attribute for it is in `script`."""
    node: Node | None = leaf
    while node is not None:
        if node.type in _HIDDEN:
            return None
        node = node.parent
    if not (name := sign["name"]):
        return ""
    said = {each[1].lower(): each[2] or each[3] or each[4] or "" for each in _SAID.finditer(sign[0])}
    language = _KIND.sub("", (said.get("lang") or said.get("type") or "").lower())
    if name.lower() == "style":
        return _STYLES.get(language, language)
    return _SCRIPTS.get(language, "") if language else script


def _elements(script: str, head: re.Pattern[str] | None = None) -> MixedGrammar:
    other = r"<(?!script|style)"  # a quote that is not closed ends before the next tag
    tag = rf"<(?P<name>script|style)(?![\w-])(?:\"(?:[^\"<]|{other})*\"|'(?:[^'<]|{other})*'|[^\"'>])*>"
    return MixedGrammar(
        "tree_sitter_html:language",
        re.compile(rf"{tag}|</(?:script|style)[\s/>]", re.IGNORECASE),
        re.compile(_ELEMENT_MARKS + (r"|\n?-+|[/*]+|\\.?|[`\n]" if head else "")),
        partial(_in_element, script),
        closing="-->",
        ends=lambda sign: _CLOSING_TAG[sign["name"].lower()],
        head=head,
    )


def _in_directive(language: str, sign: re.Match[str], leaf: Node) -> str | None:
    """Return the language behind a sign of a template: `language` if the sign opens a directive."""
    directive = leaf.parent
    if directive is None or leaf.type in ("code", "comment", "content") or directive.type == "content":
        return None
    is_code = directive.type in ("directive", "output_directive") and sign[0].startswith("<")
    return language if is_code else ""


def _template(language: str, joint: str) -> MixedGrammar:
    return MixedGrammar(
        "tree_sitter_embedded_template:language",
        re.compile(r"<%%|%%>|<%(?:[-_#|]|\|?={0,2}|graphql)|[-_=]?%>"),
        re.compile(r"[-<=_>%#|]*%[-<=_>%#|]*(?:graphql)?"),
        partial(_in_directive, language),
        closing=" %>",
        ends=lambda _: _DIRECTIVE_END,
        pieces=re.compile(r"<%[-_=|]*(?![%#])(.*?)[-_=]?%>", re.DOTALL),
        joint=joint,
    )


def _in_php(_: re.Match[str], leaf: Node) -> str | None:
    return {"php_tag": "php", "php_end_tag": "html"}.get(leaf.type)


HTML = _elements("javascript")
ASTRO = _elements("typescript", _HEAD)
ERB = _template("ruby", "\n#\n")
EJS = _template("javascript", "\n//\n")
PHP = MixedGrammar(
    "tree_sitter_php:language_php",
    re.compile(r"<\?(?:php|=)?|\?>", re.IGNORECASE),
    re.compile(r"[<?]+[ph=]*>?", re.IGNORECASE),
    _in_php,
    ends=lambda sign: None if sign[0] == "?>" else _PHP_END,
    closing="'\"*/",
    first="html",
    pieces=re.compile(r"<\?(?:php|=)?(.*?)\?>", re.DOTALL | re.IGNORECASE),
    joint="\n;//\n",
)
