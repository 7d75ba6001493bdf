"""Safety: with certificates, only who has one of the cluster's authority is heard, and only where its host says it is.

TLS of the frames, by the standard library. Both sides show a certificate that the cluster's authority signed. The one who dials
checks that the certificate names the host that it dialled. The one who listens checks that a peer's names the peer's host.
"""

import ipaddress
import os
import ssl
from typing import Any, NamedTuple

from highwater.impl.errors import Definite


class BadCertificate(Definite):
    """A certificate, its key or its authority cannot be used; the message names the file and says why."""


class NotEncrypted(Definite):
    """An address beyond this machine without certificates: anybody could read and write there."""


class Files(NamedTuple):
    """The files of one side, in PEM: the cluster's authority, the own certificate and its key."""

    authority: str
    certificate: str
    key: str


class Tls(NamedTuple):
    """The contexts of one side: for connections that it takes, and for those that it makes."""

    taken: ssl.SSLContext
    made: ssl.SSLContext


def loaded(files: Files) -> Tls:
    """Return the contexts, after a trial of them against each other. Raises BadCertificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    taken = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    taken.verify_mode = ssl.CERT_REQUIRED
    for context in (made, taken):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(files.authority)
        except OSError as error:
            raise BadCertificate(f"{files.authority}: no certificate of an authority can be read: {error}") from error
        try:
            context.load_cert_chain(files.certificate, files.key)
        except OSError as error:
            raise BadCertificate(f"{files.certificate} with the key {files.key} cannot be used: {error}") from error
    try_alone(Tls(taken, made), files)
    return Tls(taken, made)


def try_alone(tls: Tls, files: Files) -> None:
    """Let the certificate meet itself in memory: one that others would refuse is refused before anything starts.

    Raises BadCertificate.
    """
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trial.check_hostname = False
    trial.load_verify_locations(files.authority)
    trial.load_cert_chain(files.certificate, files.key)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [trial.wrap_bio(down, up), tls.taken.wrap_bio(up, down, server_side=True)]
    try:
        for _ in range(4):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as error:
        raise BadCertificate(f"{files.certificate}: others would refuse it: {reason(error)}; make a new one, signed by "
                             f"{files.authority}") from error


def reason(error: BaseException) -> str:
    """Return what is wrong with a connection, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return str(error)


def names_host(certificate: dict[str, Any] | None, host: str) -> bool:
    """Tell whether a certificate, as ssl gives it, is for this host: a name or an address."""
    kind = "IP Address" if is_address(host) else "DNS"
    return certificate is not None and (kind, host) in certificate.get("subjectAltName", ())


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback if is_address(host) else host == "localhost"


def check_encrypted(host: str, tls: Tls | None, insecure: bool) -> None:
    """Raises NotEncrypted for an address beyond this machine without certificates, unless that is allowed."""
    if tls is None and not insecure and not is_loopback(host):
        raise NotEncrypted(f"{host} can be reached from other machines, and there are no certificates: give them, or allow "
                           "it with --insecure on a network that you trust")
