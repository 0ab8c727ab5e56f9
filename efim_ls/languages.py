"""Languages as LSP names them: which a model knows, what people call them, and which a file is written in."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

# Prose, logs and messages to a version control system, as VS Code, Neovim, Helix and Emacs name them.
PROSE = (
    "plaintext", "text", "markdown", "restructuredtext", "rst", "asciidoc", "org", "mail", "help", "log",
    "scminput", "git-commit", "gitcommit", "git-rebase", "gitrebase", "hgcommit", "jjdescription",
)  # fmt: skip

JSX = " JSX"  # ends the name of a dialect
ANY = "*"  # in place of a language: all of them
# LSP's name, people's, and how names of files end; without a point, the whole names, in small letters. Others are
# called as LSP names them.
TABLE = (
    ("asciidoc", "AsciiDoc", ".adoc .asciidoc"),
    ("c", "C", ".c .h"),
    ("clojure", "Clojure", ".clj"),
    ("cpp", "C++", ".cc .cpp .cxx .hh .hpp"),
    ("csharp", "C#", ".cs"),
    ("css", "CSS", ".css"),
    ("cuda-cpp", "CUDA C++", ".cu"),
    ("cython", "Cython", ".pyx .pxd"),
    ("dart", "Dart", ".dart"),
    ("dockerfile", "Dockerfile", ".dockerfile containerfile dockerfile"),
    ("elixir", "Elixir", ".ex .exs"),
    ("erlang", "Erlang", ".erl"),
    ("fsharp", "F#", ".fs"),
    ("git-commit", "commit messages", "commit_editmsg merge_msg squash_msg tag_editmsg"),
    ("git-rebase", "rebase lists", "git-rebase-todo"),
    ("go", "Go", ".go"),
    ("haskell", "Haskell", ".hs"),
    ("html", "HTML", ".htm .html"),
    ("java", "Java", ".java"),
    ("javascript", "JavaScript", ".cjs .js .mjs"),
    ("javascriptreact", "JavaScript JSX", ".jsx"),
    ("json", "JSON", ".json"),
    ("julia", "Julia", ".jl"),
    ("kotlin", "Kotlin", ".kt .kts"),
    ("log", "logs", ".log"),
    ("lua", "Lua", ".lua"),
    ("makefile", "Makefile", ".mk gnumakefile makefile"),
    ("markdown", "Markdown", ".md"),
    ("objective-c", "Objective-C", ".m"),
    ("ocaml", "OCaml", ".ml .mli"),
    ("org", "Org", ".org"),
    ("perl", "Perl", ".pl .pm"),
    ("php", "PHP", ".php"),
    ("plaintext", "plain text", ".txt"),
    ("powershell", "PowerShell", ".ps1"),
    ("python", "Python", ".py .pyi .pyw sconscript sconstruct"),
    ("r", "R", ".r"),
    ("restructuredtext", "reStructuredText", ".rst"),
    ("ruby", "Ruby", ".rb gemfile podfile rakefile vagrantfile"),
    ("rust", "Rust", ".rs"),
    ("scala", "Scala", ".scala"),
    ("scss", "SCSS", ".scss"),
    ("shellscript", "shell scripts", ".bash .sh .zsh"),
    ("sql", "SQL", ".sql"),
    ("swift", "Swift", ".swift"),
    ("toml", "TOML", ".toml"),
    ("typescript", "TypeScript", ".cts .mts .ts"),
    ("typescriptreact", "TypeScript JSX", ".tsx"),
    ("vue", "Vue", ".vue"),
    ("xml", "XML", ".xml"),
    ("yaml", "YAML", ".yaml .yml"),
    ("zig", "Zig", ".zig"),
)
NAMES = {language: name for language, name, _ in TABLE}
# Languages whose files share words and phrases, with the first of them.
FAMILIES = {
    "javascriptreact": "javascript",
    "typescript": "javascript",
    "typescriptreact": "javascript",
    "cpp": "c",
    "cuda-cpp": "c",
    "cython": "python",
    "scss": "css",
}
DIALECTS = {"javascript": "javascriptreact", "typescript": "typescriptreact"}  # those with tags in them
# Lines that a text in a language is likely to have, and one in another is not.
TELLING = (
    ("python", r"^\s*(def .*[:(,]$|class \w+.*:$|from [\w.]+ import |import [\w.]+$|elif .*:$|if __name__ ==)"),
    (
        "c",
        r"^\s*#\s*(include\b.*\.h[>\"]$|define |ifn?def )|^\s*(static |const )*(int|void|char|size_t)\b.*[;{(]$",
    ),
    ("cpp", r"^\s*#include <\w+>$|\bstd::|^\s*template ?<|^\s*namespace \w+ \{"),
    ("csharp", r"^\s*using [A-Z][\w.]*;$|^\s*namespace [\w.]+;?$|\{ get; "),
    ("go", r"^package \w+$|^func |^\s+\w+(, \w+)? := |^\s*if err != nil"),
    ("html", r"^\s*<(!DOCTYPE|/?(html|head|body|div|span|p|a|ul|li|script))\b"),
    ("java", r"^\s*(public|private|protected) .*[;{]$|^import [\w.]+;$|^package [\w.]+;$|^\s*@Override$"),
    (
        "javascript",
        r"^\s*(const|let|var) .*=|=> \{$|\bfunction\b.*\{$|^import .* from ['\"]|^export |\brequire\(",
    ),
    ("lua", r"^\s*local |^\s*end[,)]*$|^\s*(local )?function .*\)$|\bthen$"),
    ("php", r"^<\?php|^\s*\$\w+ = |\$this->"),
    (
        "ruby",
        r"^\s*(def [\w.?!]+(\(.*\))?|end|(module|class) [A-Z]\w*( < .*)?)$|^\s*require(_relative)? ['\"]|\bdo \|",
    ),
    ("rust", r"^\s*(pub )?(fn|struct|enum|mod|trait) |^\s*impl\b.*\{$|\blet mut |^\s*use \w+::|^#\["),
    ("shellscript", r"^#!.*sh$|^\s*(fi|done|esac)$|; (then|do)$|^\s*export \w+="),
    ("typescript", r"^\s*(export )?(interface|type|enum) \w+|\w\??: (string|number|boolean)\b|^import type "),
)
GUESSED, LONGEST_TELLING = 200, 300  # lines of a text that tell its language, and their characters that are looked at
ENDINGS = {ending: language for language, _, endings in TABLE for ending in endings.split()}


def language_named(name: str) -> str:
    """Return the language that a client names; of a name in parts, as Vim has them, the first that is known.

    `typescript.tsx` and `javascript.jsx` are the dialects, `python.django` is Python.
    """
    parts = [each for each in name.split(".") if each]
    if name.lower() in NAMES or len(parts) < 2:
        return name
    known = next((each for each in parts if each.lower() in NAMES), parts[0])
    dialect = DIALECTS.get(known.lower(), "")
    return dialect if {"tsx", "jsx"}.intersection(each.lower() for each in parts) and dialect else known


def language_of(path: str) -> str:
    """Return the language of a file by its suffix, or by its name if that has none; empty if it is not listed."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    return "" if stem.startswith(".") and not suffix else ENDINGS.get((suffix or stem).lower(), "")


def guess_language(text: str) -> str:
    """Return the language that a part of a file is most likely in: Python, unless its lines tell another."""
    lines = [line[:LONGEST_TELLING] for line in text.split("\n", GUESSED)[:GUESSED]]
    counts = {language: sum(bool(each.search(line)) for line in lines) for language, each in _telling().items()}
    return max(counts, key=lambda language: counts[language])


@cache
def _telling() -> Mapping[str, re.Pattern[str]]:
    """Compile what tells a language when a text is first guessed: no editor's start waits for that."""
    return {language: re.compile(pattern) for language, pattern in TELLING}


def family_of(language: str) -> str:
    """Return the language that stands for all whose files share words with this one's."""
    return FAMILIES.get(language.lower(), language.lower())


def name_of(language: str) -> str:
    """Return what people call a language."""
    return NAMES.get(language.lower(), language)


def names_of(languages: Iterable[str]) -> list[str]:
    """Return what people call languages; a dialect is not named beside its language."""
    names = [name_of(each) for each in languages]
    return [name for name in names if name.removesuffix(JSX) == name or name.removesuffix(JSX) not in names]


def knows(languages: Collection[str], language: str) -> bool:
    """Return whether a model that knows these languages knows this one; it is asked if the language has no name."""
    return not language or ANY in languages or language.lower() in {each.lower() for each in languages}


def notice(model: str, languages: Sequence[str], language: str) -> str | None:
    """Return a sentence for users if the model does not know a language, else None.

    `model` is its name or folder; that of the embedded ones is empty.
    """
    if knows(languages, language):
        return None
    known = listed(names_of(languages))
    which = f"model {model} knows" if model else "embedded models know"
    return (
        f"The {which} {known} only; here suggestions come from this file's own phrases. Choose a model that knows "
        f"{name_of(language)} with the setting 'model'."
    )


def listed(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
