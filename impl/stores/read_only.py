"""Safety: nothing is written through this store."""

from typing import Any

from highwater.impl.errors import Unavailable
from highwater.impl.world import ObjectStore


class ReadOnly:
    """A store that passes reads to `inner` and refuses every mutation with Unavailable."""

    def __init__(self, inner: ObjectStore):
        self.caches = inner.caches
        self.get, self.get_range, self.get_if_changed = inner.get, inner.get_range, inner.get_if_changed
        self.head, self.list_page = inner.head, inner.list_page

    async def _refused(self, key: str, *_: Any, **__: Any) -> Any:
        raise Unavailable(f"{key!r}: this store is open for reading only")

    create = update = put = delete = _refused
