"""A process that opens many connections to one address and holds them: `python -m tests.support.holding HOST PORT N HEX S`.

It sends the bytes HEX on each, and opens a connection again that the other side closed, for S seconds.
"""

import asyncio
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


async def hold_one(host: str, port: int, first: bytes) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(first)
            while await reader.read(1 << 16):
                pass
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(0.5)


async def hold(host: str, port: int, number: int, first: bytes, seconds: float) -> None:
    tasks = [asyncio.create_task(hold_one(host, port, first)) for _ in range(number)]
    await asyncio.sleep(1.0)
    print("held", flush=True)
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()


@asynccontextmanager
async def held(host: str, port: int, number: int, first: bytes = b"") -> AsyncIterator[None]:
    """Within the context, another process holds so many connections to an address."""
    words = (host, str(port), str(number), first.hex(), "120")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.support.holding", *words, cwd=ROOT,
                                                   stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"held\n"
        yield
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(hold(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4]), float(sys.argv[5])))
