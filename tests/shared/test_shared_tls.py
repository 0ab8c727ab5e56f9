"""TLS: only a server whose certificate is the team's, and names it, gets anything."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.shared.servers import PASSWORD, free_port, redis
from tests.shared.stores import colleague, read, save
from tests.unit.shared_shelves import KEY
from tests.waiting import HANG


def certify(folder: Path, address: str) -> tuple[Path, Path]:
    """Write a certificate for an address, which vouches for itself, and its private key."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(x509.OID_COMMON_NAME, "cache")]),
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "private.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return paths


@pytest.mark.parametrize(
    ("certified", "trusted", "expected"), [("127.0.0.1", True, 3), ("127.0.0.1", False, 0), ("127.0.0.2", True, 0)]
)
def test_a_server_is_asked_if_its_certificate_is_right(
    tmp_path: Path, certified: str, trusted: bool, expected: int
) -> None:
    (tmp_path / "key").write_text(KEY, "utf-8")
    certificate, private = map(str, certify(tmp_path, certified))
    port = free_port()
    files = ("--tls-cert-file", certificate, "--tls-key-file", private, "--tls-ca-cert-file", certificate)
    with redis(tmp_path, "--tls-port", str(port), "--tls-auth-clients", "no", *files):
        authority = f"?ssl_ca_certs={quote(certificate)}" if trusted else ""
        url, said = f"rediss://:{PASSWORD}@127.0.0.1:{port}{authority}", list[str]()
        opened = colleague(url, tmp_path / "key", said)
        save(opened.store, 1, 3)
        assert (opened.store.stats()[0].written, bool(said)) == (expected, not expected)
        assert not said or "certificate" in said[0]
        other = colleague(url, tmp_path / "key")
        assert read(other.store, 1, 3) == expected
        assert opened.store.close(HANG) and other.store.close(HANG)
