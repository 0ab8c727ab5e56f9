"""Which files may hold secrets, by name, and which documents' keys and values may be written to disk.

Keys and values can reveal the text that they were computed from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import PurePosixPath

from efim_ls.access.patterns import any_match, first_match, path_variants
from efim_ls.paths import file_path

# Patterns for names of files and folders, matched regardless of case: what tools read tokens, passwords, keys
# from, and lists leave out of repositories (GitHub's gitignore) or look for in them (gitleaks, GitHub dorks).
SECRET_FILES = (
    # environments, and settings that stay on one machine
    ".env", ".env.*", ".env-*", ".env_*", "*.env", "*.env.*", ".envrc", ".flaskenv", ".dev.vars", ".dev.vars.*",
    ".renviron", ".renviron.*", "renviron.site", "local.settings.json", "*.secret.exs", "serverless.env.y*ml",
    # keys and certificates
    "*.pem", "*.key", "*.ppk", "*.pfx", "*.p12", "*.p8", "*.pk8", "*.pkcs12", "*.jks", "*.bks", "*.snk", "*.keystore",
    "*.keytab", "*.agekey", "*.asc", "*.gpg", "*.pgp", "*.private_key", "*.mobileprovision", "*.provisionprofile",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_dsa", "*_ecdsa", "*_ed25519", "ssh_host_*_key",
    "secring.*", "keystore.properties", "key.properties", "signing.properties",
    # stores of passwords, and wallets
    "*.kdbx", "*.kdb", "*.psafe3", "*.agilekeychain", "*.keychain", "*.keychain-db", "logins.json", "key4.db",
    "wallet.dat", "*.wallet", "mnemonic.txt", "seed.txt",
    # what programs log in with
    ".netrc", "_netrc", ".authinfo", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".odbc.ini", ".npmrc",
    ".yarnrc", ".yarnrc.yml", ".pypirc", "pip.conf", "pip.ini", ".s3cfg", ".boto", ".dockercfg", ".dockerconfigjson",
    ".vault-token", ".vault_pass*", ".vault-pass*", "vault_pass*", "vault-pass*", "vault.y*ml", ".terraformrc",
    "terraform.rc", ".htpasswd", "htpasswd", ".git-credentials", ".databrickscfg", ".tugboat", ".cvspass", ".trc",
    ".msmtprc", ".fetchmailrc", ".esmtprc", ".muttrc", ".offlineimaprc", ".mbsyncrc", ".smbcredentials", ".rhosts",
    ".xauthority", ".iceauthority", ".passwd-s3fs", "rclone.conf", "auth.json", "kaggle.json", "nuget.config",
    "google-services.json", "googleservice-info.plist", "*firebase-adminsdk*.json", "service-account*.json",
    "service_account*.json", "serviceaccount*.json", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*",
    "kubeconfig", "*.kubeconfig", "k3s.yaml", "*.ovpn", "*.rdp", "*.pcf", "*.nmconnection", "wpa_supplicant.conf",
    "*.publishsettings", "*.azurepubxml", "*.cscfg", "parameters.yml", "wp-config.php", "localsettings.php",
    "sftp.json", "sftp-config.json", ".ftpconfig", ".remote-sync.json", "filezilla.xml", "recentservers.xml",
    "sitemanager.xml", "webservers.xml", "robomongo.json", "*dbeaver-data-sources.xml", "proftpdpasswd", "shadow",
    "gshadow", "master.passwd", "knife.rb", "secret_token.rb",
    # names that say so
    "secret.*", "secrets.*", "*.secret", "*.secrets", "*-secrets", "*secret*.json", "*secret*.y*ml", "*secret*.toml",
    "*secret*.txt", "credentials", "credentials.*", "*.credentials", "*credentials*.json", "password.*",
    "passwords.*", ".*_history", "token", "token.txt", ".token", "*.token", "*_token.txt", "*-token.txt",
)  # fmt: skip
SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".fly", ".databricks", ".snowflake", ".snowsql",
    ".terraform.d", ".bluemix", ".password-store", "gcloud", "doctl", "configstore", "keyrings", "wireguard",
    "usersecrets", "secrets", ".secrets",
)  # fmt: skip
# Patterns for whole paths: remotes may have tokens in their URLs, and environments hold what programs are given.
SECRET_PATHS = (
    "*/.git/config", "*/.git/config.worktree", "*/.git/modules/*/config", "/proc/*/environ", "*/gh/hosts.yml",
    "*/.config/hub", "*/glab-cli/config.yml", "*/.m2/settings*.xml", "*/.gradle/gradle.properties",
    "*/.dbt/profiles.yml", "*/sops/age/keys.txt", "*/.subversion/auth/*", "*/.irssi/config", "*/.purple/accounts.xml",
    "*/.netlify/config.json", "*/.jupyter/jupyter_*_config.json", "*/.circleci/cli.yml",
)  # fmt: skip
# What editors, tools and people add to the name of a file to name a copy of it.
COPIED = re.compile(
    r"~|[._-](?:bak|backup|old|orig|save|saved|copy|tmp|swp|swo|\d{1,2})\d?|#| copy(?: \d+)?| ?\(\d+\)", re.ASCII
)
MOST_COPIED = 4  # endings taken off a name: of a copy of a copy
# Extensions of source code, including web pages. Not of shell scripts: they often only set variables.
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
    """Return whether a document is a file whose name does not suggest secrets and matches no `private` pattern.

    A link must pass under its own path and under its target's.
    """
    path = file_path(uri)
    if path is None or "\0" in path:
        return False
    paths = path_variants(path)
    return not looks_secret(paths) and first_match(paths, private) is None


def private_among(uris: Iterable[str], private: Collection[str]) -> frozenset[str]:
    """Return those documents that may not reach a disk, and so no other machine either."""
    return frozenset(uri for uri in uris if not may_reach_disk(uri, private))


def looks_secret(paths: Collection[str]) -> bool:
    """Return whether one of a file's paths, in lower case, is a usual place for secrets."""
    return any(_is_secret(path) for path in paths)


def is_secret_data(paths: Collection[str]) -> bool:
    """Return the same for files that are not code: `secrets.py` is usually a module, not a list of passwords."""
    return any(_is_secret(path) and not _is_code(PurePosixPath(path)) for path in paths)


@lru_cache(64)  # several questions are asked of each path
def _is_secret(whole: str) -> bool:
    folder, _, name = whole.rstrip("/").rpartition("/")
    return (
        any_match([whole], SECRET_PATHS) or any_match(_originals(name), SECRET_FILES) or _is_in_secret_folder(folder)
    )


@lru_cache(1024)
def _is_in_secret_folder(folder: str) -> bool:
    return any_match((name for part in folder.split("/") for name in _originals(part)), SECRET_FOLDERS)


def _is_code(path: PurePosixPath) -> bool:
    return not path.name.startswith(".") and any(PurePosixPath(name).suffix in CODE for name in _originals(path.name))


@lru_cache(64)
def _originals(name: str) -> tuple[str, ...]:
    """Return a name in lower case, and the names that it may be a copy of."""
    names = [name, *([name[1:-1], name[2:]] if name[:2] in ("#.", ".#") else [])]
    names += [name[1:-1]] if name[:1] == name[-1:] == "#" else []
    for _ in range(MOST_COPIED):
        shorter = {each[: end.start()] for each in names for end in COPIED.finditer(each) if end.end() == len(each)}
        if not (new := shorter - {*names, ""}):
            break
        names += sorted(new)
    return tuple(names)
