"""Safety: a connection does only what the certificate of its other side allows.

A role is a URI among the subject alternative names of a certificate: `highwater://CLUSTER/peer/NAME` of a node,
`highwater://CLUSTER/client` and `highwater://CLUSTER/operator`. A certificate may have several. An operator may send what a
client may. A certificate without such a URI may act in every role, unless roles are required.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

SCHEME = "highwater://"
CLIENT, OPERATOR = "client", "operator"
SHOWN = 300  # characters of a certificate's own names in a message


def peer(name: str) -> str:
    """Return the role of the node of this name."""
    return f"peer/{quote(name, safe='')}"


class Roles(NamedTuple):
    """The roles of one cluster."""

    cluster: str
    required: bool = False

    def uri(self, role: str) -> str:
        """Return the URI that gives a certificate the role in this cluster."""
        return f"{SCHEME}{quote(self.cluster, safe='')}/{role}"

    def refusal(self, uris: Iterable[str], role: str) -> str:
        """Return why a certificate with these URIs may not act in a role; "" if it may."""
        given = [uri for uri in uris if uri.startswith(SCHEME)]
        if self.uri(role) in given or (role == CLIENT and self.uri(OPERATOR) in given):
            return ""
        if not given and not self.required:
            return ""
        if not given:
            return f"roles are required, and the certificate has none: make one with the URI {self.uri(role)}"
        return f"the certificate is for {', '.join(given)[:SHOWN]}, and not for {self.uri(role)}"


def uris_in(certificate: dict[str, Any] | None) -> list[str]:
    """Return the URIs of a certificate, as ssl gives it."""
    return [value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]
