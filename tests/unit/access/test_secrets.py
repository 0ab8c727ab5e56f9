"""What may reach the disk: files, but not where secrets are kept, nor what a user calls private."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from efim_ls.access.secrets import is_secret_data, may_reach_disk


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/project/main.py",
        "/home/me/secrets_manager/vault.py",
        "/home/me/password-manager/src/app.ts",
        "/home/me/project/environment.py",
        "/home/me/project/monkey.py",
        "/c%3A/Users/me/a%20b.py",
    ],
)
def test_code_may(path: str) -> None:
    assert may_reach_disk(f"file://{path}", ())


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/project/.env",
        "/home/me/project/.env.production",
        "/home/me/project/prod.env",
        "/home/me/.ssh/config",
        "/home/me/.ssh/keys/notes.txt",
        "/home/me/.aws/credentials",
        "/home/me/ID_RSA.pub",
        "/srv/certs/server.PEM",
        "/srv/certs/server.key",
        "/home/me/.netrc",
        "/home/me/project/secrets.yaml",
        "/home/me/project/secrets/db.txt",
        "/home/me/infra/prod.tfvars",
        "/home/me/project/%2Eenv",
        "/home/me/project/#1/.env",
        "/home/me/project/client_secret_5.json",
        "/home/me/.config/gcloud/x.json",
        "/home/me/infra/terraform.tfstate.backup",
        "/home/me/.bash_history",
    ],
)
def test_secrets_may_not(path: str) -> None:
    assert not may_reach_disk(f"file://{path}", ())


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "vscode-notebook-cell:/a.ipynb#c1", "doctor:sample", "a.py", ""]
)
def test_what_is_no_file_may_not(uri: str) -> None:
    assert not may_reach_disk(uri, ())


@pytest.mark.parametrize(
    "pattern",
    ["*.sql", "DUMP.SQL", "*/client/*", "client", "client/", "Client/*", "/project/client", "/project/*.sql"],
)
def test_what_the_user_calls_private_may_not(pattern: str) -> None:
    assert not may_reach_disk("file:///project/Client/dump.sql", ["*.none", pattern])
    assert may_reach_disk("file:///project/other/dump.py", [pattern])


def test_brackets_are_a_names_own() -> None:
    assert not may_reach_disk("file:///app/%5Bid%5D/page.tsx", ["[id]/*"])
    assert may_reach_disk("file:///app/i/page.tsx", ["[id]/*"])


@pytest.mark.parametrize("name", ["secrets.py", "credentials.ts", "gcloud/deploy.go"])
def test_programs_that_deal_with_secrets_may_not_either(name: str) -> None:
    assert not may_reach_disk(f"file:///project/{name}", ())


def test_naming_private_files_takes_nothing_from_the_secrets() -> None:
    assert not may_reach_disk("file:///project/.env", ["*.sql"])


def test_a_home_is_meant_by_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert not may_reach_disk("file:///home/me/clients/a.py", ["~/clients/*"])
    assert may_reach_disk("file:///home/you/clients/a.py", ["~/clients/*"])


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x")
    (tmp_path / "harmless.py").symlink_to(tmp_path / ".env")
    assert not may_reach_disk((tmp_path / "harmless.py").as_uri(), ())


@pytest.mark.parametrize(
    ("uri", "may"),
    [
        ("file://[x/a.py", True),
        ("file://a\u2100b/a.py", True),
        ("file://[x/.env", False),
        ("file:", True),
        ("file://", True),
        ("FILE:///a.py", True),
        ("FILE:///.env", False),
        ("file:///a%00b", False),
        ("file:///a%00b.py", False),
    ],
)
def test_whatever_a_client_calls_a_file_is_judged(uri: str, may: bool) -> None:
    assert may_reach_disk(uri, ()) is may


SECRET_NAMES = [
    ".env~", ".env-prod", ".env_prod", ".env_prod~", "prod.pem.bak", "prod.pem~", "prod.pem.2", "prod.pem_bak",
    ".prod.pem.swp", "server.key.old", "id.key.orig", "credentials~", ".netrc.bak", ".npmrc.old", "id_rsa.bak",
    "#.env#", ".#.env", ".env.bak.old~", "secrets.yaml.orig", "prod%20copy.pem", ".env%20copy", ".env%20(1)",
    "terraform.tfstate.1", "token", "token.txt", "api_token.txt", ".git/config", ".ssh.bak/config",
    ".git/modules/lib/config", ".git/config.worktree", ".Renviron", ".dev.vars", ".vault_pass", ".vault_pass.txt",
    "local.settings.json", "AuthKey_A1.p8", ".config/gh/hosts.yml", "auth.json", ".yarnrc.yml", "office.ovpn",
    "deploy_rsa", "app.mobileprovision", ".oci/config", ".config/doctl/config.yaml", ".m2/settings.xml",
    "google-services.json", "app-firebase-adminsdk-1.json", "prod.secret.exs", "krb5.keytab", ".databrickscfg",
    ".password-store/mail.txt", "LocalSettings.php", "chap-secrets", "kaggle.json", ".authinfo",
]  # fmt: skip
OTHER_NAMES = [
    "environment.py", "credentials_test.py~", "main.py~", "README.md~", "monkey.py.bak", "keyboard.old",
    "notes.old", "app.2", "copy.py", "config", "src/config", "git/config", ".github/config",
    ".config/app/config", ".gitignore", ".gitmodules", "environ", "proc/self/environ", "tokens.txt",
    "tokenizer.txt", "tokenize.py", "env-setup.md", "hosts.yml", "settings.xml", "gradle.properties", "settings.json",
    "appsettings.json", "auth.py", "vault.py", "keys.txt", "profiles.yml", "shadow.css",
    ".environment", "dotenv.md", "key.md", "pem.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_copies_and_variants_of_secret_files_may_not(name: str) -> None:
    assert not may_reach_disk(f"file:///project/{name}", ())
    assert name.endswith((".php", ".exs")) or is_secret_data({unquote(f"/project/{name}").lower()})


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_that_only_resemble_secrets_may(name: str) -> None:
    assert may_reach_disk(f"file:///project/{name}", ())


@pytest.mark.parametrize("process", ["self", "1", "12345", "12/task/13"])
def test_the_environment_of_a_process_may_not(process: str) -> None:
    assert not may_reach_disk(f"file:///proc/{process}/environ", ())


def test_a_copy_of_a_program_that_deals_with_secrets_is_code() -> None:
    assert not is_secret_data({"/project/credentials.py~"}) and not is_secret_data({"/project/secrets.py.bak"})
