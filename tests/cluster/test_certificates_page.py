"""The page on certificates: its commands make files that nodes, clients and operators can use, with the roles that it says."""

import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from highwater.impl.stores.certificates import Files, loaded
from highwater.impl.stores.roles import CLIENT, OPERATOR, Roles, peer, uris_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating" / "certificates.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_the_commands_of_the_page_make_usable_certificates(tmp_path):
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    roles = {"node1": peer("1"), "node2": peer("2"), "node3": peer("3"), "app": CLIENT, "admin": OPERATOR}
    for name, role in roles.items():
        files = Files(*(str(tmp_path / file) for file in ("ca.pem", f"{name}.pem", f"{name}.key")))
        server, client = loaded(files).taken, ssl.create_default_context(cafile=files.authority)
        client.load_cert_chain(files.certificate, files.key)
        client.check_hostname = name.startswith("node")
        given = uris_in(shown(client, server))
        others = {*roles.values()} - {role} - ({CLIENT} if role == OPERATOR else set())
        assert not Roles("main", required=True).refusal(given, role)
        assert all(Roles("main", required=True).refusal(given, other) for other in others)


def shown(client: ssl.SSLContext, server: ssl.SSLContext):
    """Return the certificate that a client, who checks that the server's is for 127.0.0.1, shows to the server."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname="127.0.0.1"), server.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[1].getpeercert()
