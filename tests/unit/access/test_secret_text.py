"""What looks secret in a text: keys and passwords of many kinds, in many kinds of files; and what does not."""

from __future__ import annotations

import ast
import base64
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efim_ls.access.secret_text import MASK, PublicText, adds_secret, secrets_in, without_secrets
from efim_ls.text.document import Change, Document

ALPHANUMERIC = string.ascii_letters + string.digits
drawn = random.Random("secrets")


def text_of(signs: str, length: int) -> str:
    return "".join(drawn.choices(signs, k=length))


KEYS = {
    "AWS": "AKIA" + text_of(string.ascii_uppercase + string.digits, 16),
    "AWS secret": text_of(ALPHANUMERIC + "+/", 40),
    "GitHub": "ghp_" + text_of(ALPHANUMERIC, 36),
    "GitHub, fine-grained": "github_pat_" + text_of(ALPHANUMERIC, 22) + "_" + text_of(ALPHANUMERIC, 59),
    "GitLab": "glpat-" + text_of(ALPHANUMERIC, 20),
    "Google": "AIza" + text_of(ALPHANUMERIC, 35),
    "Hugging Face": "hf_" + text_of(string.ascii_letters, 34),
    "npm": "npm_" + text_of(ALPHANUMERIC, 36),
    "OpenAI": "sk-proj-" + text_of(ALPHANUMERIC + "_-", 48),
    "Anthropic": "sk-ant-api03-" + text_of(ALPHANUMERIC + "_-", 90),
    "Slack": "xoxb-" + text_of(string.digits, 12) + "-" + text_of(ALPHANUMERIC, 24),
    "Stripe": "sk_live_" + text_of(ALPHANUMERIC, 24),
    "Twilio": "SK" + text_of("0123456789abcdef", 32),
    "SendGrid": "SG." + text_of(ALPHANUMERIC, 22) + "." + text_of(ALPHANUMERIC, 43),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + text_of(ALPHANUMERIC + "_-", 80),
    "DigitalOcean": "dop_v1_" + text_of("0123456789abcdef", 64),
    "JSON Web Token": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMj{text_of(ALPHANUMERIC, 20)}.{text_of(ALPHANUMERIC, 43)}",
    "random": text_of(ALPHANUMERIC, 32),
    "random, of small letters": "k7" + text_of(string.ascii_lowercase + string.digits, 48),
}
PASSWORDS = ("hunter2hunter3", "Tr0ub4dor&3", "s3cr3t-p4ss", text_of("0123456789abcdef", 32), "c0rrect/h0rse")
# Where a key of a known format, or one that looks random, stands without a name that says so.
PLACES = {
    "python": ["client = Client('{}')", 'X = "{}"', "# {}", "call(\n    '{}',\n)"],
    "typescript": ["const client = connect(`{}`);", "x: '{}',", "// was {}"],
    "shellscript": ["export X={}", "curl -H 'X-Y: {}' https://x.org", "tool {} --verbose"],
    "yaml": ["x: {}", "- {}", "args: ['{}']"],
    "json": ['"x": "{}",', '["{}"]'],
    "markdown": ["Use `{}` there.", "    {}"],
    "plaintext": ["{}"],
}
# Where a password stands behind a name.
NAMED = {
    "python": [
        'PASSWORD = "{}"', 'password: str = "{}"', "connect(password='{}')", "{'token': '{}'}", 'secret = b"{}"',
        'os.environ.get("DB_PASSWORD", "{}")', 'if password == "{}":', "x.set_password('{}')", 'token = ("{}")',
        'token = os.getenv("X") or "{}"', 'dsn = "host=x password={} user=y"', "# export TOKEN={}",
        'password = (\n    "{}"\n)', 'url = "postgres://me:{}@host/db"', 'h = {"Authorization": "Bearer {}"}',
    ],
    "typescript": [
        "const apiKey = '{}';", "const password: string = `{}`;", "new Client({ token: \"{}\" })",
        "process.env.SECRET ?? '{}'", "const token = process.env.X || '{}';", "clientSecret: '{}',",
    ],
    "shellscript": [
        "export DB_TOKEN={}", 'PGPASSWORD="{}" psql', "mysql --password={} db", "mysql --password {}",
        "curl -u admin:{} https://x.org", "curl -H 'Authorization: Bearer {}' https://x.org", "API_KEY={} # mine",
    ],
    "yaml": [
        "password: {}", "password: '{}'", "- name: DB_PASSWORD\n  value: {}", "api_key: {} # prod",
        "client-secret: {}",
        "password: >-\n  {}", "url: amqp://me:{}@host", "DATABASE_PASSWORD: \"{}\"",
    ],
    "json": [
        '{"password": "{}"}', '"apiKey": "{}",', '{"name": "TOKEN", "value": "{}"}', '"x": {"auth": "{}"}',
        '"AccountKey={};EndpointSuffix=x"',
    ],
    "properties": ["spring.datasource.password={}", "password = {}"],
    "xml": ["<password>{}</password>", '<add key="DbPassword" value="{}" />'],
    "dockerfile": ["ENV TOKEN={}", "ENV TOKEN {}"],
    "go": ['token := "{}"'],
    "php": ["define('DB_PASSWORD', '{}');", "'password' => '{}',"],
    "sql": ["CREATE USER x IDENTIFIED BY '{}'"],
    "": ["TOKEN={}", "password: {}"],
}  # fmt: skip
PRIVATE = base64.encodebytes(drawn.randbytes(600)).decode()
# What code has that is none.
HARMLESS = [
    "SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'",
    "id = uuid.UUID('550e8400-e29b-41d4-a716-446655440000')",
    "def test_that_a_very_long_name_of_a_test_2_is_one(self) -> None:",
    "getElementsByClassNameAndTagNameNS2(document)",
    "password = get_password(user)", "self.token = token", "token: str", "secret = None", "password = ''",
    "api_key = os.environ['API_KEY']", "const token = tokens[0];", "token = next(tokens)", "password: ${DB_PASSWORD}",
    'password: "{{ vault_password }}"', "token: <your token>", "f'token={token}'", "tokens = tokenize(source)",
    "integrity sha512-oJ4F3TnvpXaQwZJNF3ZK+kLPHKarDmJjJ6jyzVNDKH9md1dptjC7lWR//jrGuLdek/U6iltWxqAnYOu8gCiOvA==",
    "from package.module_with_a_long_name_2.another import something", "https://example.org/a/path/to/Some/Page1.html",
    "TOKEN_TYPES = ('name', 'number', 'string')", "0x6487ed5110b4611a62633145c06e0e68", "x86_64-unknown-linux-gnu",
    "-----BEGIN PRIVATE KEY-----",
    "if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    return parse(line, lines)",
    "manylinux_2_17_x86_64.manylinux2014_x86_64", "password_field = 'password'", "token_type = 'bearer'",
]  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_found_wherever_they_stand(kind: str) -> None:
    key = KEYS[kind]
    for language, places in PLACES.items():
        for place in places:
            public = without_secrets(place.replace("{}", key), language)
            assert all(part not in public for part in key.split(".") if len(part) > 2), (language, place)


@pytest.mark.parametrize("language", NAMED)
def test_passwords_are_found_by_their_names(language: str) -> None:
    for place in NAMED[language]:
        for password in PASSWORDS:
            text = place.replace("{}", password)
            is_split = ("://" in text and "/" in password) or (language == "json" and "&" in password)
            assert is_split or password not in without_secrets(text, language), text


@pytest.mark.parametrize("language", ["python", "plaintext", "json"])
@pytest.mark.parametrize("kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
def test_private_keys_are_found_line_by_line(language: str, kind: str) -> None:
    text = f"-----BEGIN {kind}-----\n{PRIVATE}-----END {kind}-----\nx = 1\n"
    text = text.replace("\n", "\\n") if language == "json" else text
    public = without_secrets(text, language)
    assert all(line not in public for line in PRIVATE.split())
    assert "-----END" in public and "x = 1" in public


@pytest.mark.parametrize("text", HARMLESS)
def test_code_is_left_as_it_is(text: str) -> None:
    assert without_secrets(text, "python") == text


def test_few_lines_of_real_code_are_taken_for_secret() -> None:
    files = sorted(Path(ast.__file__).parent.glob("*.py"))
    texts = [file.read_text("utf-8") for file in files]
    found = [text[span.start : span.end] for text in texts for span in secrets_in(text, "python")]
    assert len(found) < sum(text.count("\n") for text in texts) / 10_000, found


@pytest.mark.parametrize("text", ["tokentoken=" * 2000, "password=" * 2000, "://a:" * 2000, "-u a:" * 2000])
def test_a_text_that_repeats_names_is_left_as_long_as_it_is(text: str) -> None:
    assert len(without_secrets(text, "")) == len(text)


def follow(public: PublicText, document: Document, change: Change) -> None:
    edit = document.apply(change)
    public.follow(edit.at, edit.at + len(edit.removed), edit.end, document.text)


LINES = st.sampled_from([
    "password = (", '    "hunter2hunter3"', ")", "- name: DB_PASSWORD", "  value: hunter2hunter3", "password: >-",
    "x = 1", "", "-----BEGIN PRIVATE KEY-----", PRIVATE[:76], "-----END PRIVATE KEY-----", f"x = '{KEYS['GitHub']}'",
    "İ token: 'hunter2hunter3'", "password:", "  hunter2hunter3", "password = \"hunter2hunter3\"\r",
])  # fmt: skip
TEXTS = st.lists(LINES, max_size=12).map("\n".join)


@given(TEXTS, st.sampled_from(["python", "yaml"]), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), TEXTS)))
def test_an_edited_text_reads_as_if_it_had_just_been_opened(
    text: str, language: str, edits: list[tuple[float, float, str]]
) -> None:
    document, public = Document("file:///a", language, text), PublicText(text, language)
    for start, end, new in edits:
        low, high = sorted((int(start * len(document.text)), int(end * len(document.text))))
        whole = document.text[:low] + new + document.text[high:]
        follow(public, document, Change(whole))
        whole = document.text  # as models read it
        assert public.text == without_secrets(whole, language)
        assert [len(line) for line in public.text.split("\n")] == [len(line) for line in whole.split("\n")]
        assert without_secrets(public.text, language) == public.text


def test_a_key_that_is_typed_is_found_once_it_is_one() -> None:
    document, public = Document("file:///a", "python", ""), PublicText("", "python")
    for sign in f"x = '{KEYS['GitHub']}'\n" + "y = 1\n" * 300:
        at = len(document.text)
        follow(public, document, Change(sign, document.position(at, "utf-32"), document.position(at, "utf-32")))
    assert public.text == without_secrets(document.text, "python")
    assert KEYS["GitHub"] not in public.text


def test_no_edit_is_offered_that_says_a_secret_again() -> None:
    text = "password = ''\nname = ''\n"
    assert adds_secret(text, "python", 12, 12, "hunter2hunter3")
    assert not adds_secret(text, "python", 22, 22, "hunter2hunter3")
    assert adds_secret(text, "python", 22, 22, MASK) and adds_secret(text, "python", 22, 22, KEYS["AWS"])
