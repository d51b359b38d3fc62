"""Certificates that servers on this machine show, made for one run."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "authority"]

Key: TypeAlias = Any  # of cryptography, which has no types here


@dataclass(frozen=True)
class Authority:
    """Signs certificates, and keeps them as files."""

    directory: Path
    name: x509.Name
    key: Key
    certificate: x509.Certificate

    @property
    def bundle(self) -> Path:
        return self.directory / "authority.pem"

    def issue(self, *names: str) -> Path:
        """A file with a certificate for names or addresses, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _signed(_named(names[0]), key, self.name, self.key, names, is_authority=False)
        path = self.directory / f"{names[0]}.pem"
        path.write_bytes(_pem(made) + _key_pem(key))
        return path

    def server(self, *names: str, asks_for_certificates: bool = False) -> ssl.SSLContext:
        """What a server needs that goes by these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(*names))
        if asks_for_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.bundle)
        return context


def authority(directory: Path) -> Authority:
    """A new authority, with files in the directory."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("tests of magicfs")
    made = Authority(directory, name, key, _signed(name, key, name, key, (), is_authority=True))
    made.bundle.write_bytes(_pem(made.certificate))
    return made


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    subject: x509.Name, key: Key, issuer: x509.Name, by: Key, names: tuple[str, ...], *, is_authority: bool
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
        )
    return builder.sign(by, hashes.SHA256())


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _key_pem(key: Key) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
