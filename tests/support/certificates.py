"""Certificates for tests: an authority, and what it signs, with the dates that a test wants."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from highwater.impl.stores.certificates import Files

DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str = "authority"):
        self.folder, self.name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        now = datetime.datetime.now(datetime.UTC)
        built = self._builder(self.name, self.key, now - DAY, now + DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        self.file.write_bytes(built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key, begin: datetime.datetime, end: datetime.datetime) -> x509.CertificateBuilder:
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
                .serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False))

    def signed(self, name: str, host: str = "127.0.0.1", days: float = 1, roles: Sequence[str] = ()) -> Files:
        """Return the files of a new certificate for `host`, valid from two days ago until in so many days.

        `roles`: its URIs, such as "highwater://main/client".
        """
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)),
                                             *map(x509.UniformResourceIdentifier, roles)])
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        built = self._builder(subject, key, now - 2 * DAY, now + days * DAY).add_extension(names, critical=False).add_extension(
            uses, critical=False)
        certificate, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                              serialization.NoEncryption()))
        return Files(str(self.file), str(certificate), str(private))
