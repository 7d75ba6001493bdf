"""Safety: an acknowledged write is stored under a name of its own, where no other write can change it. The caller of a write
without a reply is told only that its outcome is unknown.

This is the baseline of the essay on object-store protocols: «every write directly goes to object storage using an atomic PUT»;
«append-only files with unique IDs, which inherently avoid conflicts». A write is one PUT. A recovery is one LIST and a GET of
each object. The code follows model/protocols/baseline.py request by request. Each write has its own name, so a write whose
outcome is unknown may be sent again blindly (`attempts`). Nothing is fenced here and nothing is collected.
"""

from collections.abc import Iterable

from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, Unavailable
from highwater.impl.world import World, list_all


class Baseline:
    """Writes, named by their callers, below `<root>/baseline/`. A name must never be used for two writes."""

    def __init__(self, world: World, root: str, attempts: int = 1):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: a recovery through it may miss what was "
                             "acknowledged; give the store that it wraps")
        self.world, self.attempts = world, attempts
        self.prefix = f"{root}/baseline/" if root else "baseline/"
        self.instances = f"{root}/baseline-instances/" if root else "baseline-instances/"  # of BaselineKv

    async def write(self, name: str, body: bytes) -> None:
        """Store `body` with one PUT; it is stored when this returns.

        The same PUT is sent again, up to `attempts` in all, while the outcome of the earlier ones is unknown. Raises
        OutcomeUnknown: it may be stored, now or later. Raises Unavailable: it is not stored and never will be.
        """
        doubt = ""
        for _ in range(self.attempts):
            try:
                await self.world.store.put(self.prefix + name, body)
                return
            except OutcomeUnknown as error:
                self.world.metrics.count("writes_in_doubt")
                doubt = str(error)
            except Unavailable:
                if not doubt:
                    raise
        raise OutcomeUnknown(f"write {name!r}: no reply to it, it may be stored now or later: {doubt}")

    async def read(self, name: str) -> bytes:
        """Return the body of one write. Raises NotFound, Unavailable."""
        return (await self.world.store.get(self.prefix + name)).body

    async def recover(self) -> dict[str, bytes]:
        """Return all writes (name -> body) in the order of names: one LIST, then a GET of each.

        The result has every write that was acknowledged before the LIST, and perhaps writes of unknown outcome. Raises
        Unavailable: start again.
        """
        entries = await list_all(self.world.store, self.prefix)
        names = [entry.key.removeprefix(self.prefix) for entry in entries]
        return {name: await self.read(name) for name in names}


KEY_SIZE_BYTES = 4  # size of the number before the key in a record; the number is the key's length


class InvalidRecord(Definite):
    """An object below the prefix that BaselineKv did not write."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(f"{name!r} is no record of a key and its value: move it out of the folder")


class BaselineKv:
    """Keys and values. Each put is a separate object, named `<instance>.<id>.<k>`; of two puts of one key the greater name
    wins.

    An instance takes a number above those of all instances that it finds. So requests of its predecessor that are still in
    flight sort before its own puts. Before its first put it announces its number with an empty object of that name in
    `<root>/baseline-instances/`: else a predecessor of whose puts none has arrived yet would have the same number. The id keeps
    names unique if two instances open at the same time. In that case the order of their puts follows their names, not time.
    Therefore only one instance may run at a time, and nothing here fences another.
    """

    def __init__(self, baseline: Baseline, found: dict[str, bytes], announced: Iterable[str] = ()):
        """Build the table from `found`, the result of `baseline.recover`. `announced`: the names of earlier instances. Raises
        InvalidRecord."""
        self.baseline = baseline
        number = 1 + max([*map(instance, found), *map(number_of, announced)], default=0)
        self.me, self.announced = f"{number:020d}.{baseline.world.ids.new_id()}", False
        self.k = 0
        self.stored = {record(name, body)[0]: name for name, body in sorted(found.items())}  # key -> the greatest known name
        self.doubtful: dict[str, list[str]] = {}  # key -> greater names, in flight or of unknown outcome

    @classmethod
    async def open(cls, world: World, root: str, attempts: int = 1) -> "BaselineKv":
        """Recover all acknowledged puts of earlier instances. Raises Unavailable, InvalidRecord."""
        baseline = Baseline(world, root, attempts)
        announced = await list_all(world.store, baseline.instances)
        return cls(baseline, await baseline.recover(), [entry.key.removeprefix(baseline.instances) for entry in announced])

    async def put(self, key: str, value: bytes) -> None:
        """Store a value with one PUT, the first with two. Raises what `Baseline.write` raises."""
        if not self.announced:
            await self._announce()
        name, self.k = f"{self.me}.{self.k:020d}", self.k + 1
        self.doubtful.setdefault(key, []).append(name)  # from now on any reader may see it
        try:
            await self.baseline.write(name, body_of(key, value))
        except Definite:
            self.doubtful[key] = [each for each in self.doubtful[key] if each != name]
            raise
        self._is_stored(key, name)

    async def _announce(self) -> None:
        """Make the number of this instance known. Raises Unavailable: no put was sent."""
        try:
            await self.baseline.world.store.put(self.baseline.instances + self.me, b"")
        except OutcomeUnknown as error:
            raise Unavailable(f"the instance could not be announced, so nothing was put: {error}") from error
        self.announced = True

    async def get(self, key: str) -> bytes | None:
        """Return the latest value of this key, or None. Raises Unavailable.

        It looks first for puts of unknown outcome. Another reader may have seen one of them, and later reads must see it, too.
        """
        for name in sorted(self.doubtful.get(key, ()), reverse=True):
            try:
                value = record(name, await self.baseline.read(name))[1]
            except NotFound:
                continue
            self._is_stored(key, name)
            return value
        if key not in self.stored:
            return None
        return record(self.stored[key], await self.baseline.read(self.stored[key]))[1]

    async def flush(self) -> None:
        """Do nothing: every put that returned is already stored, and a put in doubt stays in doubt."""

    def _is_stored(self, key: str, name: str) -> None:
        latest = self.stored[key] = max(name, self.stored.get(key, ""))
        self.doubtful[key] = [each for each in self.doubtful.get(key, ()) if each > latest]


def instance(name: str) -> int:
    """Return the number of the instance that wrote this name. Raises InvalidRecord."""
    if len(name.split(".")) != 3:
        raise InvalidRecord(name)
    return number_of(name)


def number_of(name: str) -> int:
    """Return the number with which a name begins. Raises InvalidRecord."""
    number = name.partition(".")[0]
    if not (number.isascii() and number.isdigit()):
        raise InvalidRecord(name)
    return int(number)


def body_of(key: str, value: bytes) -> bytes:
    name = key.encode()
    return len(name).to_bytes(KEY_SIZE_BYTES) + name + value


def record(name: str, body: bytes) -> tuple[str, bytes]:
    """Return the key and the value in a body. Raises InvalidRecord."""
    end = KEY_SIZE_BYTES + int.from_bytes(body[:KEY_SIZE_BYTES])
    if len(body) < end:
        raise InvalidRecord(name)
    try:
        return body[KEY_SIZE_BYTES:end].decode(), body[end:]
    except UnicodeDecodeError:
        raise InvalidRecord(name) from None
