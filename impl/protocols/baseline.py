"""Safety: a write that was acknowledged is stored under a name of its own, where no other write can touch it; of a write
without a reply nobody is told anything but that its outcome is unknown.

Source 004's baseline: «every write directly goes to object storage using an atomic PUT»; «append-only files with unique IDs,
which inherently avoid conflicts». One PUT a write, one LIST and a GET of each object a recovery: model/protocols/baseline.py,
request by request. As its name is its own, a write whose outcome is unknown may be sent again blindly: `attempts`. Nothing is
fenced here and nothing is collected.
"""

from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, Unavailable
from highwater.impl.world import World, list_all


class Baseline:
    """Writes named by their callers below `<root>/baseline/`; a name must never be used for two writes."""

    def __init__(self, world: World, root: str, attempts: int = 1):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: a recovery through it may miss what was "
                             "acknowledged; give the store that it wraps")
        self.world, self.attempts = world, attempts
        self.prefix = f"{root}/baseline/" if root else "baseline/"

    async def write(self, name: str, body: bytes) -> None:
        """PUT, and then tell the caller: it is stored when this returns. The same PUT is sent again, up to `attempts` in all,
        while the outcome of those before is unknown.

        Raises OutcomeUnknown: it may be stored, now or later. Raises Unavailable: it is not, and never will be.
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
        """GET. Raises NotFound, Unavailable."""
        return (await self.world.store.get(self.prefix + name)).body

    async def recover(self) -> dict[str, bytes]:
        """LIST, then GET each: name -> body, in the order of names. All that was acknowledged before the LIST is in it, and
        perhaps writes whose outcome nobody was told. Raises Unavailable: begin anew."""
        entries = await list_all(self.world.store, self.prefix)
        names = [entry.key.removeprefix(self.prefix) for entry in entries]
        return {name: await self.read(name) for name in names}


KEY_SIZE_BYTES = 4  # of the number before the key in a record


class InvalidRecord(Definite):
    """An object below the prefix that BaselineKv has not written."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(f"{name!r} is no record of a key and its value: move it out of the folder")


class BaselineKv:
    """Keys and values, each put an object of its own, named `<instance>.<id>.<k>`: of two of one key the greater name wins.

    An instance is numbered after all that were there when it opened, so whatever its predecessor has still under way comes
    before its own puts. The id makes names unique whoever else opens at the same time; but which of two puts is the later is
    then for their names to say, not for time: it takes one instance at a time, and nothing here fences another.
    """

    def __init__(self, baseline: Baseline, found: dict[str, bytes]):
        """`found`: what `baseline.recover` found. Raises InvalidRecord."""
        self.baseline = baseline
        number = 1 + max((instance(name) for name in found), default=0)
        self.me = f"{number:020d}.{baseline.world.ids.new_id()}"
        self.k = 0
        self.stored = {record(name, body)[0]: name for name, body in sorted(found.items())}  # key -> the greatest name known
        self.doubtful: dict[str, list[str]] = {}  # key -> greater names, under way or of unknown outcome

    @classmethod
    async def open(cls, world: World, root: str, attempts: int = 1) -> "BaselineKv":
        """Recover: what an instance before this one was told is stored is found again. Raises Unavailable, InvalidRecord."""
        baseline = Baseline(world, root, attempts)
        return cls(baseline, await baseline.recover())

    async def put(self, key: str, value: bytes) -> None:
        """One PUT. Raises what `Baseline.write` raises."""
        name, self.k = f"{self.me}.{self.k:020d}", self.k + 1
        self.doubtful.setdefault(key, []).append(name)  # from now on anyone may see it
        try:
            await self.baseline.write(name, body_of(key, value))
        except Definite:
            self.doubtful[key] = [each for each in self.doubtful[key] if each != name]
            raise
        self._is_stored(key, name)

    async def get(self, key: str) -> bytes | None:
        """GET the latest record of this key; None if there is none. A put of unknown outcome is looked for first, for who reads
        elsewhere may have seen it, and what one has seen the next must see. Raises Unavailable."""
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
        """Every put that returned is stored already; what is in doubt remains so."""

    def _is_stored(self, key: str, name: str) -> None:
        latest = self.stored[key] = max(name, self.stored.get(key, ""))
        self.doubtful[key] = [each for each in self.doubtful.get(key, ()) if each > latest]


def instance(name: str) -> int:
    """The number of the instance that put it. Raises InvalidRecord."""
    number = name.partition(".")[0]
    if len(name.split(".")) != 3 or not (number.isascii() and number.isdigit()):
        raise InvalidRecord(name)
    return int(number)


def body_of(key: str, value: bytes) -> bytes:
    name = key.encode()
    return len(name).to_bytes(KEY_SIZE_BYTES) + name + value


def record(name: str, body: bytes) -> tuple[str, bytes]:
    """Key and value. Raises InvalidRecord."""
    end = KEY_SIZE_BYTES + int.from_bytes(body[:KEY_SIZE_BYTES])
    if len(body) < end:
        raise InvalidRecord(name)
    try:
        return body[KEY_SIZE_BYTES:end].decode(), body[end:]
    except UnicodeDecodeError:
        raise InvalidRecord(name) from None
