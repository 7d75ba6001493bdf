"""Safety: a call's outcome crosses the network as it is: its code, its reason, and which node to ask instead.

gRPC over HTTP/2 for programs that ask a node, by grpcio. A server takes one function for all paths; requests and answers are
bytes. The library ends a call whose deadline has passed or whose client is gone by cancelling its task. Beyond the loopback
address TLS is needed, with certificates of the cluster's authority on both sides, as between nodes. The library closes
connections that do not finish their handshake in time, or have no call for long. Their number is bounded before it: front.py.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import grpc
import grpc.aio

from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.impl.stores.certificates import Files, check_encrypted, loaded
from highwater.impl.stores.frames import HANDSHAKE_S
from highwater.impl.stores.front import Bounds, Front, folder_of_socket, listener_of
from highwater.impl.stores.in_flight import InFlight
from highwater.impl.stores.keys import escaped
from highwater.impl.stores.roles import CLIENT, OPERATOR, Roles
from highwater.impl.stores.stream_net import Address, AddressInUse
from highwater.impl.stores.system import Counters, with_frames
from highwater.impl.world import Metrics

LEADER, READ, STALE = "highwater-leader", "highwater-read", "stale"  # metadata of answers and of requests
USUAL_BOUNDS = Bounds()
GRACE_S = 2.0  # for calls that are under way when the server ends
SEND_S = 20.0  # for a client to read an answer, or a part of one
LONGEST_TEXT = 500  # letters of an error's text: a letter may take 12 bytes of metadata, of which 8 KiB are allowed
IDLE_MS = 60_000  # a connection without a call for so long is closed; a client connects again by itself
DEAD_MS = 30_000  # a connection whose other side answers no ping for so long is closed
log = logging.getLogger("highwater")
Answer = Callable[[str, bytes, bool], Awaitable[Any]]  # (path, request, stale) -> code, text, body, leader
Stream = Callable[[str, bytes], AsyncIterator[bytes]]  # (path, request) -> parts of the answer


def of_kind(error: StoreError) -> str:
    return "FAILED_PRECONDITION" if isinstance(error, Definite) else "UNKNOWN"


class Asked(NamedTuple):
    """The functions that answer: `answer` for all paths but those of `streams`."""

    answer: Answer
    streams: dict[str, Stream]
    code_of: Callable[[StoreError], str] = of_kind  # that an error of a stream has
    roles: Roles | None = None  # None: whoever has a certificate may make all calls
    role_of: Callable[[str], str] = lambda path: CLIENT  # that a path needs; "": none


class Failure(NamedTuple):
    """An answer other than OK."""

    code: str
    text: str
    trailing: tuple[tuple[str, str], ...] = ()


Parts = Callable[[bytes, Any], AsyncIterator[bytes | Failure]]  # (request, context) -> the parts of the answer


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


def cut(text: str) -> str:
    """Return a text as the details of an error: one line of some hundred letters, since gRPC's metadata has little room. The
    beginning and the end stay."""
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT - 150]} .. ({len(text):,} letters) .. {text[-100:]}"
    return escaped(text)


class Handlers(grpc.GenericRpcHandler):
    """Finds the function of a path; the library asks it for each call."""

    def __init__(self, asked: Asked, held: InFlight, front: Front):
        self.asked, self.held, self.front = asked, held, front

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        answers = self._streaming(path) if path in self.asked.streams else self._answering(path)
        return grpc.unary_stream_rpc_method_handler(self._bounded(path, answers))  # on the wire one answer is a stream of one

    def _bounded(self, path: str, answers: Parts) -> Any:
        """Return the handler of a call. It refuses what the caller's certificate does not allow, counts the bytes of the
        request and of each answer while they are held, and ends the call of a client that does not read."""
        async def handled(request: bytes, context: Any) -> None:
            peer, sizes, failure = context.peer(), list[int](), None
            try:
                failure = self._denied(path, context) or self._hold(peer, len(request), sizes)
                if failure is None:
                    async for part in answers(request, context):
                        if isinstance(part, Failure):
                            failure = part
                            break
                        if (failure := self._hold(peer, len(part), sizes)) is not None:
                            break
                        async with asyncio.timeout(SEND_S):
                            await context.write(part)
                        self.held.give_back(peer, sizes.pop())
            except StoreError as error:
                failure = Failure(self.asked.code_of(error), str(error))
            except TimeoutError:
                failure = Failure("RESOURCE_EXHAUSTED", f"the answer was not read within {SEND_S:.0f} s")
                unread, sizes = sum(sizes), []  # the library holds it until the call is over
                context.add_done_callback(lambda _: self.held.give_back(peer, unread))
            except Exception as error:
                if context.done():
                    return  # the client is gone, so nothing more can be written
                log.error("a call raised what nobody expected: %s", with_frames(error))
                failure = Failure("UNKNOWN", f"{type(error).__name__}: {error}")
            finally:
                self.held.give_back(peer, sum(sizes))
            if failure is not None:
                await context.abort(getattr(grpc.StatusCode, failure.code), cut(failure.text), failure.trailing)

        return handled

    def _hold(self, peer: str, size_bytes: int, sizes: list[int]) -> Failure | None:
        if why := self.held.refusal(peer, size_bytes):
            return Failure("RESOURCE_EXHAUSTED", why)
        sizes.append(size_bytes)
        return None

    def _answering(self, path: str) -> Parts:
        async def answered(request: bytes, context: Any) -> AsyncIterator[bytes | Failure]:
            stale = (READ, STALE) in [(name, value) for name, value in context.invocation_metadata() or ()]
            reply = await self.asked.answer(path, request, stale)
            trailing = ((LEADER, reply.leader),) if reply.leader else ()
            yield reply.body if reply.code == "OK" else Failure(reply.code, reply.text, trailing)

        return answered

    def _denied(self, path: str, context: Any) -> Failure | None:
        """Return why the caller's certificate does not allow the call, or why there is no room for its connection."""
        role = self.asked.role_of(path)
        if self.asked.roles is not None and role:
            uris = [uri.decode() for uri in context.auth_context().get("peer_uri", ())]
            if why := self.asked.roles.refusal(uris, role):
                return Failure("PERMISSION_DENIED", f"{path}: {why}")
        why = self.front.admit(context.peer(), role == OPERATOR)
        return Failure("RESOURCE_EXHAUSTED", why) if why and role else None  # a probe of health needs no slot

    def _streaming(self, path: str) -> Parts:
        async def streamed(request: bytes, context: Any) -> AsyncIterator[bytes | Failure]:
            async for part in self.asked.streams[path](path, request):
                yield part

        return streamed


@asynccontextmanager
async def serving(address: Address, asked: Asked, files: Files | None = None, insecure: bool = False,
                  most_bytes: int = 4 << 20, bounds: Bounds = USUAL_BOUNDS,
                  metrics: Metrics | None = None, held: InFlight | None = None) -> AsyncGenerator[int]:
    """Serve calls within the context; yield the port, which the system chose if that of `address` is 0.

    `most_bytes`: of a request. `bounds`: of connections. `held` bounds the bytes of all calls under way.
    Raises AddressInUse, NotEncrypted, BadCertificate.
    """
    check_encrypted(address.host, loaded(files) if files else None, insecure)
    async with folder_of_socket() as folder:
        place = str(folder / "api")
        front = Front(place, bounds)
        server = grpc.aio.server(handlers=[Handlers(asked, held or InFlight(), front)], options=[
            ("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", most_bytes), ("grpc.max_send_message_length", -1),
            ("grpc.max_allowed_incoming_connections", 2 * bounds.most()), ("grpc.max_connection_idle_ms", IDLE_MS),
            ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1e3)), ("grpc.keepalive_time_ms", DEAD_MS),
            ("grpc.keepalive_timeout_ms", DEAD_MS)])
        if files:
            server.add_secure_port(f"unix:{quote(place)}", server_credentials(files))
        else:
            server.add_insecure_port(f"unix:{quote(place)}")
        listener = listener_of(front, bounds, metrics or Counters())
        await server.start()
        try:
            await listener.start(*address)
            yield listener.sockets[0].getsockname()[1]
        except OSError as error:
            if listener.sockets:
                raise  # of the context
            raise AddressInUse(f"calls cannot be served on {address}: end the other process, or take another port") from error
        finally:
            await listener.stop_accepting()
            await server.stop(GRACE_S)
            await listener.close()


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

