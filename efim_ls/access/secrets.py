"""Which files hold secrets, by their names, and which documents may reach the disk.

Keys and values tell the text that they were computed from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from efim_ls.access.patterns import any_match, first_match, path_variants
from efim_ls.paths import file_path

# Patterns of files' names and of folders', compared without case.
SECRET_FILES = (
    ".env", ".env.*", "*.env", "*.env.*", ".envrc", "*.pem", "*.key", "*.ppk", "*.pfx", "*.p12", "*.jks",
    "*.keystore", "*.kdbx", "*.asc", "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc",
    ".pgpass", ".my.cnf", ".npmrc", ".pypirc", ".s3cfg", ".boto", ".dockercfg", ".vault-token", ".terraformrc",
    ".htpasswd", ".git-credentials", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", "kubeconfig",
    "*.kubeconfig", "secret.*", "secrets.*", "*.secret", "*.secrets", "*secret*.json", "*secret*.y*ml",
    "*secret*.toml", "*secret*.txt", "credentials", "credentials.*", "*.credentials", "*credentials*.json",
    "service-account*.json", "service_account*.json", "password.*", "passwords.*", ".*_history",
)  # fmt: skip
SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", "gcloud", "secrets", ".secrets")
# Extensions of programs, and of what web pages are made of. Not those of shells: such files often set variables only.
CODE = frozenset({
    ".astro", ".bas", ".bicep", ".c", ".c++", ".cc", ".cjs", ".clj", ".cljc", ".cljs", ".cpp", ".cs", ".cshtml",
    ".css", ".cts", ".cu", ".cxx", ".d", ".dart", ".ejs", ".elm", ".erb", ".erl", ".ex", ".exs", ".f90", ".fs",
    ".fsx", ".gd", ".go", ".gradle", ".groovy", ".h", ".haml", ".hbs", ".heex", ".hh", ".hpp", ".hs", ".htm",
    ".html", ".hxx", ".ipynb", ".java", ".jl", ".js", ".jsx", ".kt", ".kts", ".less", ".lua", ".m", ".ml", ".mli",
    ".mm", ".mjs", ".mts", ".nim", ".nix", ".pas", ".php", ".pl", ".pm", ".proto", ".pug", ".py", ".pyi", ".pyx",
    ".r", ".rb", ".rs", ".sass", ".scala", ".scm", ".scss", ".sol", ".svelte", ".swift", ".tf", ".ts", ".tsx",
    ".twig", ".v", ".vb", ".vue", ".zig",
})  # fmt: skip


def may_reach_disk(uri: str, private: Iterable[str]) -> bool:
    """Whether a document is a file, and neither a usual place for secrets nor one that the user calls private.

    A link is judged by where it leads, too.
    """
    there = file_path(uri)
    if there is None or "\0" in there:
        return False
    paths = path_variants(there)
    return not looks_secret(paths) and first_match(paths, private) is None


def looks_secret(paths: Collection[str]) -> bool:
    """Whether a file is in a usual place for secrets, by one of its paths in lower case."""
    return any(_is_secret(PurePosixPath(path)) for path in paths)


def is_secret_data(paths: Collection[str]) -> bool:
    """The same, but not of programs: `secrets.py` is a module more often than a list of passwords."""
    return looks_secret([path for path in paths if not _is_code(PurePosixPath(path))])


def _is_secret(path: PurePosixPath) -> bool:
    return any_match([path.name], SECRET_FILES) or any_match(path.parent.parts, SECRET_FOLDERS)


def _is_code(path: PurePosixPath) -> bool:
    return path.suffix in CODE and not path.name.startswith(".")
