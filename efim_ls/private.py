"""Which documents may reach the disk: keys and values tell the text that they were computed from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import product
from pathlib import PurePosixPath

from efim_ls.uris import file_path

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


def may_reach_disk(uri: str, private: Iterable[str]) -> bool:
    """Whether a document is a file, and neither a usual place for secrets nor one that the user calls private.

    The user's patterns are compared with names, of files and folders, and with paths from any folder on; `*` stands
    for any characters, `/` included, `~` for the home folder. A link is judged by where it leads, too.
    """
    there = file_path(uri)
    if there is None or "\0" in there:
        return False
    theirs = [pattern for each in private for pattern in _of_user(each)]
    return not any(_is_secret(path.lower(), theirs) for path in {there, os.path.realpath(there)})


def _of_user(pattern: str) -> list[str]:
    """A user's pattern as those that whole paths are compared with; what is in a folder that is meant is meant."""
    whole = os.path.expanduser(pattern).rstrip("/").lower()
    return [whole, f"*/{whole}", f"{whole}/*", f"*/{whole}/*"]


def _is_secret(there: str, theirs: Iterable[str]) -> bool:
    path = PurePosixPath(there)
    ours = _any([path.name], SECRET_FILES) or _any(path.parent.parts, SECRET_FOLDERS)
    return ours or _any([there], theirs)


def _any(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name, pattern in product(names, patterns))
