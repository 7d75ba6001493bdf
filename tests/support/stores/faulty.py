"""A store that records its requests, and gives the next mutation of a kind the fate that a test chooses.

`faulty.next("create", LOST, LATE)` decides the fates of the next two creates; every other request passes. Reads may be refused.
"""

from typing import Any

from highwater.impl.errors import Definite, OutcomeUnknown, Unavailable

LOST = "lost"  # applied, or refused by its condition; no reply
NEVER = "never"  # not applied; no reply
LATE = "late"  # not applied yet; no reply; `arrive` applies it
REFUSED = "refused"  # not applied, and the reply says so
METHODS = ("create", "update", "put", "get", "get_range", "get_if_changed", "head", "list_page", "delete")


class Faulty:
    def __init__(self, store: Any):
        self.store, self.caches = store, store.caches
        self.requests: list[tuple[str, str]] = []  # (method, key)
        self._fates: dict[str, list[str]] = {}
        self._late: list[tuple] = []

    def next(self, method: str, *fates: str) -> None:
        self._fates.setdefault(method, []).extend(fates)

    def sent(self) -> str:
        """The methods asked for since the last call, as in "list_page get create"."""
        methods, self.requests = " ".join(method for method, _ in self.requests), []
        return methods

    async def arrive(self) -> None:
        """Apply the late requests now; their conditions are judged now."""
        late, self._late = self._late, []
        for real, *arguments in late:
            try:
                await real(*arguments)
            except Definite:
                pass

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        real = getattr(self.store, name)

        async def asked(key: str, *rest: Any) -> Any:
            self.requests.append((name, key))
            fate = self._fates[name].pop(0) if self._fates.get(name) else ""
            if fate == REFUSED:
                raise Unavailable(f"{name} {key} refused")
            if fate == LATE:
                self._late.append((real, key, *rest))
            elif fate == LOST:
                try:
                    await real(key, *rest)
                except Definite:
                    pass
            if fate:
                raise OutcomeUnknown(f"no reply to {name} {key}")
            return await real(key, *rest)

        return asked
