"""One process of a cluster for tests: `python -m tests.cluster.node JSON`. It ends with the process that started it.

SIGUSR1 lets its disk fail. `bug` names a safeguard that is off, to see that the judge notices.
"""

import asyncio
import json
import logging
import signal
import sys
from typing import Any

from highwater.cluster import server
from highwater.cluster.server import OPTIONS, Settings, serve
from highwater.cluster.service import loaded
from highwater.impl.errors import StoreError
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft.node import Node
from highwater.impl.stores.certificates import Files
from highwater.impl.stores.certificates import loaded as certificates
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.stream_net import Address
from highwater.interrupt import die_with


class FailingDisk(FolderDisk):
    """A folder's disk, all of whose writes and syncs fail once `fails` is true."""

    fails = False

    async def append(self, name: str, body: bytes) -> None:
        self._check()
        await super().append(name, body)

    async def sync(self, name: str) -> None:
        self._check()
        await super().sync(name)
        self._check()

    def _check(self) -> None:
        if self.fails:
            raise DiskFailed("the device does not answer; look at the disk, then start the node again")


class ForgetfulDisk(FailingDisk):
    """A disk that keeps nothing of an earlier process."""

    async def lock(self) -> None:
        await super().lock()
        for name in await self.names():
            await self.remove(name)


async def unconfirmed(node: Node) -> Any:
    """Read without asking the leader."""
    return node.value


async def run(wanted: dict[str, Any]) -> str:
    nodes = {name: Address(*place) for name, place in wanted["nodes"].items()}
    options = OPTIONS._replace(tick_ms=wanted["tick_ms"], snapshot_entries=wanted["snapshot_entries"],
                               keep_entries=wanted["snapshot_entries"] // 2, segment_bytes=64 << 10,
                               forms=wanted["forms"])
    tls = certificates(Files(*wanted["tls"])) if wanted["tls"] else None
    settings = Settings(wanted["folder"], wanted["node"], nodes, loaded(wanted["machine"]), listen=Address(*wanted["listen"]),
                        metrics_port=wanted["metrics"], options=options, tls=tls, join=wanted["join"],
                        cluster=wanted["cluster"], roles_required=wanted["roles_required"])
    disk = (ForgetfulDisk if wanted["bug"] == "forgets" else FailingDisk)(wanted["folder"])
    if wanted["bug"] == "unconfirmed":
        server.Node.read = unconfirmed
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: setattr(disk, "fails", True))
    return await serve(settings, disk)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    die_with(wanted["parent"])
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    try:
        why = asyncio.run(run(wanted))
    except StoreError as error:
        sys.exit(f"error: {error}")
    if why:
        print(f"stopped: {why}", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
