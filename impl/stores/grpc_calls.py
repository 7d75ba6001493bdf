"""Safety: a call's outcome crosses the network as it is: its code, its reason, and which node to ask instead.

gRPC over HTTP/2 for programs that ask a node, by grpcio. A server takes one function for all paths; requests and answers are
bytes. The library ends a call whose deadline has passed or whose client is gone by cancelling its task. Beyond the loopback
address TLS is needed, with certificates of the cluster's authority on both sides, as between nodes.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio

from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.impl.stores.certificates import Files, check_encrypted, loaded
from highwater.impl.stores.stream_net import Address, AddressInUse

LEADER, READ, STALE = "highwater-leader", "highwater-read", "stale"  # metadata of answers and of requests
GRACE_S = 2.0  # for calls that are under way when the server ends
Answer = Callable[[str, bytes, bool], Awaitable[Any]]  # (path, request, stale) -> code, text, body, leader
Stream = Callable[[str, bytes], AsyncIterator[bytes]]  # (path, request) -> parts of the answer


def of_kind(error: StoreError) -> str:
    return "FAILED_PRECONDITION" if isinstance(error, Definite) else "UNKNOWN"


class Asked(NamedTuple):
    """The functions that answer: `answer` for all paths but those of `streams`."""

    answer: Answer
    streams: dict[str, Stream]
    code_of: Callable[[StoreError], str] = of_kind  # that an error of a stream has


class Refused(Definite):
    """The server's answer says that the call had no effect. `code` is gRPC's; `leader` is the node to ask, if it named one."""

    def __init__(self, code: str, text: str, leader: str = ""):
        self.code, self.leader = code, leader
        super().__init__(f"{code}: {text}")


class Unclear(Indefinite):
    """An answer that the call may have had its effect, now or later; or there was none. `code` is gRPC's."""

    def __init__(self, code: str, text: str):
        self.code = code
        super().__init__(f"{code}: {text}")


CLEAR = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "ABORTED", "UNIMPLEMENTED", "NOT_FOUND",
         "UNAUTHENTICATED", "PERMISSION_DENIED")


class Handlers(grpc.GenericRpcHandler):
    """Finds the function of a path; the library asks it for each call."""

    def __init__(self, asked: Asked):
        self.asked = asked

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        if path in self.asked.streams:
            return grpc.unary_stream_rpc_method_handler(self._streaming(path))
        return grpc.unary_unary_rpc_method_handler(self._answering(path))

    def _answering(self, path: str) -> Any:
        async def answered(request: bytes, context: Any) -> bytes:
            stale = (READ, STALE) in [(name, value) for name, value in context.invocation_metadata() or ()]
            reply = await self.asked.answer(path, request, stale)
            if reply.code == "OK":
                return reply.body
            trailing = ((LEADER, reply.leader),) if reply.leader else ()
            await context.abort(getattr(grpc.StatusCode, reply.code), reply.text, trailing)
            raise AssertionError("abort raises")

        return answered

    def _streaming(self, path: str) -> Any:
        async def streamed(request: bytes, context: Any) -> AsyncIterator[bytes]:
            try:
                async for part in self.asked.streams[path](path, request):
                    yield part
            except StoreError as error:
                await context.abort(getattr(grpc.StatusCode, self.asked.code_of(error)), str(error))

        return streamed


@asynccontextmanager
async def serving(address: Address, asked: Asked, files: Files | None = None, insecure: bool = False,
                  most_bytes: int = 4 << 20) -> AsyncGenerator[int]:
    """Serve calls within the context; yield the port, which the system chose if that of `address` is 0.

    `most_bytes`: of a request. Raises AddressInUse, NotEncrypted, BadCertificate.
    """
    check_encrypted(address.host, loaded(files) if files else None, insecure)
    server = grpc.aio.server(handlers=[Handlers(asked)], options=[
        ("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", most_bytes), ("grpc.max_send_message_length", -1)])
    try:
        port = (server.add_secure_port(str(address), server_credentials(files)) if files
                else server.add_insecure_port(str(address)))
    except RuntimeError as error:
        raise AddressInUse(f"calls cannot be served on {address}: end the other process, or take another port") from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(GRACE_S)


def server_credentials(files: Files) -> Any:
    authority, certificate, key = [Path(file).read_bytes() for file in files]
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)


class Channel:
    """A client's connection to one server. Use it as a context."""

    def __init__(self, address: Address, files: Files | None = None, most_bytes: int = -1):
        options = [("grpc.max_receive_message_length", most_bytes), ("grpc.max_send_message_length", -1)]
        if files is None:
            self.channel = grpc.aio.insecure_channel(str(address), options)
        else:
            authority, certificate, key = [Path(file).read_bytes() for file in files]
            credentials = grpc.ssl_channel_credentials(authority, key, certificate)
            self.channel = grpc.aio.secure_channel(str(address), credentials, options)
        self.address = address

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def call(self, path: str, body: bytes, timeout_s: float, stale: bool = False) -> bytes:
        """Return the answer to one call. Raises Refused, Unclear."""
        try:
            metadata = ((READ, STALE),) if stale else ()
            return await self.channel.unary_unary(path)(body, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from None

    async def parts(self, path: str, body: bytes, timeout_s: float) -> AsyncIterator[bytes]:
        """Yield the parts of a streamed answer. Raises Refused, Unclear."""
        try:
            async for part in self.channel.unary_stream(path)(body, timeout=timeout_s):
                yield part
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from None

    def _error(self, error: Any) -> Refused | Unclear:
        code, text = error.code().name, error.details() or "no reason is given"
        trailing: Sequence[tuple[str, Any]] = error.trailing_metadata() or ()
        leader = next((str(value) for name, value in trailing if name == LEADER), "")
        if code in CLEAR or leader:
            return Refused(code, text, leader)
        return Unclear(code, f"{self.address}: {text}")

