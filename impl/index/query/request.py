"""Safety: a question that means nothing is refused, and so is one without a tenant, before anything is read."""

from collections import Counter
from typing import Any, NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.query.selector import InvalidSelector, Matcher, parse
from highwater.impl.index.validate import invalid_tenant


class InvalidQuery(Definite):
    """A question that is refused. The message says why."""


class Query(NamedTuple):
    """A question to the index. `shards`: of these only; none: of all."""

    tenants: frozenset[str]
    min_ms: int  # both inclusive
    max_ms: int
    matchers: tuple[Matcher, ...]
    labels: tuple[str, ...]  # names, in the order of the answer
    shards: frozenset[int]
    semantics: str


def unnamed(tenant: str) -> str | None:
    """Return why this is no name of a tenant, or None."""
    return invalid_tenant(tenant) if tenant else "an empty name is no tenant's"


def query_of(request: Any, semantics: str = COMPAT) -> Query:
    """Return the question of a QueryMetadataRequest or a QueryMetadataLabelsRequest. Raises InvalidQuery."""
    labels = list(request.labels)
    if not request.tenant_id:
        raise InvalidQuery("tenant_id is empty: name at least one tenant")
    for tenant in request.tenant_id:
        if (wrong := unnamed(tenant)) is not None:
            raise InvalidQuery(f"tenant_id: {wrong}")
    if request.start_time > request.end_time:
        raise InvalidQuery(f"start_time {request.start_time} is after end_time {request.end_time}")
    twice = [name for name, count in Counter(labels).items() if count > 1]
    if twice:
        raise InvalidQuery(f"labels has {min(twice)!r} twice")
    try:
        matchers = parse(request.query)
    except InvalidSelector as error:
        raise InvalidQuery(str(error)) from None
    return Query(frozenset(request.tenant_id), request.start_time, request.end_time, tuple(dict.fromkeys(matchers)),
                 tuple(labels), frozenset(request.shards), semantics)
