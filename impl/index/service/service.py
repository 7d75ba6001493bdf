"""Safety: a refused call has changed nothing, and a call is answered as its method's table says, whoever calls.

`Service.call` takes the path of a method and a request as bytes, and returns the answer as bytes, or a code with a reason. It
knows no network: impl/stores/grpc_calls.py is one. The paths and messages are those of Pyroscope's published API.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.messages import CLASSES, decode, encode
from highwater.impl.errors import StoreError
from highwater.impl.index.library import Index, InvalidArgument
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.service.codes import INVALID_ARGUMENT, OK, RESOURCE_EXHAUSTED, UNIMPLEMENTED, OverLimit, code_of
from highwater.impl.index.service.limits import Limits, too_large
from highwater.impl.raft.faults import NotLeader

PACKAGE = "metastore.v1"


class Method(NamedTuple):
    """A method of the API: the name of its request's message, and whether any node answers it."""

    request: str
    reads: bool


METHODS = {  # path -> method
    f"/{PACKAGE}.IndexService/AddBlock": Method("AddBlockRequest", False),
    f"/{PACKAGE}.IndexService/GetBlockMetadata": Method("GetBlockMetadataRequest", True),
    f"/{PACKAGE}.CompactionService/PollCompactionJobs": Method("PollCompactionJobsRequest", False),
    f"/{PACKAGE}.MetadataQueryService/QueryMetadata": Method("QueryMetadataRequest", True),
    f"/{PACKAGE}.MetadataQueryService/QueryMetadataLabels": Method("QueryMetadataLabelsRequest", True),
    f"/{PACKAGE}.TenantService/GetTenants": Method("GetTenantsRequest", True),
    f"/{PACKAGE}.TenantService/GetTenant": Method("GetTenantRequest", True),
    f"/{PACKAGE}.TenantService/DeleteTenant": Method("DeleteTenantRequest", False),
}


class Reply(NamedTuple):
    """An answer: its code, with the reason if that is not OK, and its bytes. `leader`: who takes what this node does not."""

    code: str
    text: str = ""
    body: bytes = b""
    leader: str = ""


class Service:
    """Answers the calls of one node's clients."""

    def __init__(self, index: Index, limits: Limits, semantics: str = COMPAT):
        """Make a service on an open index. `semantics`: what a missing label means in queries: query/matching.py."""
        self.index, self.limits, self.semantics = index, limits, semantics
        self.under_way = 0

    async def call(self, path: str, body: bytes, stale: bool = False) -> Reply:
        """Answer one call. `stale`: a read may lack what is new."""
        if path not in METHODS:
            return Reply(UNIMPLEMENTED, f"{path!r} is no method of this index")
        if self.under_way >= self.limits.calls:
            return Reply(RESOURCE_EXHAUSTED, f"{self.limits.calls:,} calls are under way at this node: repeat it later")
        self.under_way += 1
        try:
            return Reply(OK, body=encode(await self._answered(path, body, stale)))
        except Undecodable as error:
            return Reply(INVALID_ARGUMENT, str(error))
        except NotLeader as error:
            return Reply(code_of(error), str(error), leader=error.leader)
        except NotImplementedError as error:
            return Reply(UNIMPLEMENTED, str(error))
        except StoreError as error:
            return Reply(code_of(error), str(error))
        finally:
            self.under_way -= 1

    async def _answered(self, path: str, body: bytes, stale: bool) -> Any:
        if len(body) > self.limits.request_bytes:
            raise OverLimit(f"the request has {len(body):,} bytes, and this node takes {self.limits.request_bytes:,}")
        method = METHODS[path]
        request = decode(CLASSES[method.request], body, "request")
        work: Callable[[Any, bool], Awaitable[Any]] = getattr(self, HANDLERS[method.request])
        return await work(request, stale and method.reads)

    def _check_sizes(self, blocks: Any) -> None:
        for block in blocks:
            if (wrong := too_large(block, self.limits)) is not None:
                raise OverLimit(wrong)

    async def add(self, block: Any, past_horizon: bool = False) -> None:
        """Add a block within the limits. Raises OverLimit, and what `Index.add` raises."""
        self._check_sizes([block])
        await self.index.add(block, past_horizon)

    async def _add_block(self, request: Any, _: bool) -> Any:
        if not request.HasField("block"):
            raise InvalidArgument("the request has no block")
        await self.add(request.block, request.past_horizon)
        return CLASSES["AddBlockResponse"]()

    async def _get_blocks(self, request: Any, stale: bool) -> Any:
        asked = request.blocks
        if len(asked.blocks) > self.limits.ids:
            raise OverLimit(f"the request has {len(asked.blocks):,} ids, and this node takes {self.limits.ids:,}")
        found = await self.index.get(asked.tenant, asked.shard, list(asked.blocks), stale)
        return CLASSES["GetBlockMetadataResponse"](blocks=found)

    async def _poll(self, request: Any, _: bool) -> Any:
        updates = len(request.status_updates) + sum(len(update.deleted) for update in request.status_updates)
        if updates > self.limits.updates:
            raise OverLimit(f"the poll has {updates:,} reports and confirmations, and this node takes {self.limits.updates:,}")
        for update in request.status_updates:
            self._check_sizes(update.compacted_blocks.new_blocks)
        return await self.index.poll(request)

    def _check_query(self, request: Any) -> None:
        """Raises OverLimit."""
        sizes = (("letters of its selector", len(request.query), self.limits.query_text),
                 *((what, len(several), self.limits.query_names) for what, several in (
                     ("tenants", request.tenant_id), ("shards", request.shards), ("labels", request.labels))))
        for what, size, most in sizes:
            if size > most:
                raise OverLimit(f"the query has {size:,} {what}, and this node takes {most:,}")

    async def _query(self, request: Any, stale: bool) -> Any:
        self._check_query(request)
        return await self.index.query(request, self.semantics, stale)

    async def _query_labels(self, request: Any, stale: bool) -> Any:
        self._check_query(request)
        return await self.index.query_labels(request, self.semantics, stale)

    async def _tenants(self, _: Any, stale: bool) -> Any:
        return await self.index.tenants(stale)

    async def _tenant(self, request: Any, stale: bool) -> Any:
        return await self.index.tenant(request.tenant_id, stale)

    async def _delete_tenant(self, request: Any, _: bool) -> Any:
        raise NotImplementedError(f"tenants are not deleted one by one: retention drops the units of {request.tenant_id!r}")


HANDLERS = {
    "AddBlockRequest": "_add_block", "GetBlockMetadataRequest": "_get_blocks", "PollCompactionJobsRequest": "_poll",
    "QueryMetadataRequest": "_query", "QueryMetadataLabelsRequest": "_query_labels", "GetTenantsRequest": "_tenants",
    "GetTenantRequest": "_tenant", "DeleteTenantRequest": "_delete_tenant",
}
