"""A Disk in memory that crashes: it keeps any subset of the 4 KiB pages of unsynced bytes, and any unsynced name or not."""

from random import Random

from highwater.dst.scripts.replicated.disks import Content, ScriptDisk
from highwater.impl.node_world import DiskFailed

PAGE = 4096


class CrashingDisk(ScriptDisk):
    """A ScriptDisk that crashes."""

    def crash(self, random: Random) -> None:
        """End the machine, and start it again."""
        for name in sorted({*self.files, *self.durable_names}):
            if self.files.get(name) is not self.durable_names.get(name) and random.random() < 0.5:
                if name in self.files:
                    self.durable_names[name] = self.files[name]
                else:
                    del self.durable_names[name]
        self.files = dict(self.durable_names)
        for file in self.files.values():
            file.now = file.durable = torn(file, random)
        self.fail, self.calls = {}, []


def torn(file: Content, random: Random) -> bytes:
    """Return what a crash leaves of a file: each page that was not synced is as it was before, or as it is now."""
    before, now = file.durable, file.now
    if len(now) < len(before):
        return random.choice((before, now))
    end = random.choice((len(now), len(now), random.randint(len(before), len(now))))
    kept = bytearray(before.ljust(end, b"\0"))
    for start in range(len(before) // PAGE * PAGE, end, PAGE):
        if random.random() < 0.5:
            kept[start:start + PAGE] = now[start:min(start + PAGE, end)]
    return bytes(kept[:end])


def broken() -> DiskFailed:
    return DiskFailed("the device does not answer; look at the disk, then start the node again")
