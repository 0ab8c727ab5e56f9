"""Which documents may reach the disk: keys and values tell the text that they were computed from."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import product
from pathlib import PurePosixPath

from efim_ls.uris import file_path

# Patterns of files' names and of folders', compared without case.
SECRET_FILES = (
    ".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.pfx", "*.p12", "*.jks", "*.keystore", "*.kdbx", "*.asc",
    "*.gpg", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc",
    ".git-credentials", ".htpasswd", "*.tfvars", "*.tfstate", "secret.*", "secrets.*", "*.secret", "*.secrets",
    "credentials", "credentials.*", "*.credentials", "password.*", "passwords.*",
)  # fmt: skip
SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", "secrets", ".secrets")


def may_reach_disk(uri: str, private: Iterable[str]) -> bool:
    """Whether a document is a file, and neither a usual place for secrets nor one that the user calls private.

    The user's patterns are compared with names and with whole paths; `*` stands for any characters, `/` included.
    """
    there = file_path(uri)
    if there is None:
        return False
    path = PurePosixPath(there.lower())
    theirs = [pattern.lower() for pattern in private]
    secret = _any([path.name], SECRET_FILES) or _any(path.parent.parts, SECRET_FOLDERS)
    return not (secret or _any([*path.parts, str(path)], theirs))


def _any(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name, pattern in product(names, patterns))
