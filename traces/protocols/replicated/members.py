"""Safety: who counts is read from the bytes of the entries that change the members, and not from what a server says of them.

The bytes are read here, and not by the server's code (impl/raft/members.py says what they mean).
"""

from struct import Struct, error, unpack_from

VERSION, VOTER, LEARNER = 1, 1, 2
SNAPSHOT, WITH_MEMBERS = Struct(">8sHQQH"), 2  # a snapshot's head; the version of one that has the body of a change
CHANGE = 2  # the kind of an entry that changes the members


def voters_in(entry: bytes) -> tuple[str, ...] | None:
    """Return the voters that an entry names, sorted; None if it changes no members. `entry`: its kind and its content. Raises
    ValueError for other bytes."""
    if entry[:1] != bytes([CHANGE]):
        return None
    return tuple(sorted(name for name, role in members_in(entry).items() if role == VOTER))


def members_in(entry: bytes) -> dict[str, int]:
    """Return the members that an entry of kind CHANGE names, each with its role. Raises ValueError for other bytes."""
    found = dict[str, int]()
    version, number = unpack_from(">BH", entry, 1) if len(entry) >= 4 else (0, 0)
    at = 4
    for _ in range(number):
        role, size = unpack_from(">BH", entry, at) if len(entry) >= at + 3 else (0, 0)
        name = entry[at + 3:at + 3 + size].decode()
        at += 3 + size
        of_address, = unpack_from(">H", entry, at) if len(entry) >= at + 2 else (len(entry),)
        at += 2 + of_address
        if role not in (VOTER, LEARNER):
            break
        found[name] = role
    if version != VERSION or at != len(entry) or len(found) != number:
        raise ValueError(f"an entry that changes the members, and names none: {entry[:40].hex()}")
    return found


def voters_of_snapshot(data: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the index of a snapshot's last entry, and its voters, sorted. Raises ValueError for other bytes."""
    try:
        _, version, index, _, number = SNAPSHOT.unpack_from(data)
        if version == WITH_MEMBERS:
            return index, voters_in(bytes([CHANGE]) + data[SNAPSHOT.size:SNAPSHOT.size + number]) or ()
        at, voters = SNAPSHOT.size, list[str]()
        for _ in range(number):
            size, = unpack_from(">H", data, at)
            voters.append(data[at + 2:at + 2 + size].decode())
            at += 2 + size
    except error as problem:
        raise ValueError(f"a snapshot that cannot be read: {problem}") from problem
    return index, tuple(sorted(voters))
