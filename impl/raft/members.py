"""Defines who belongs to a group: voters, learners, and where those are dialled that came after its beginning.

Learners get entries, and do not count. The body of an entry that changes the members has all of them: u8 version, u16 number,
and for each u8 role (1 voter, 2 learner), u16 length and name, u16 length and address; integers big-endian.
"""

from struct import error, unpack_from
from typing import NamedTuple

from highwater.impl.raft.faults import OtherVersion

VERSION, VOTER, LEARNER = 1, 1, 2


class Members(NamedTuple):
    """The members of a group. All three are sorted."""

    voters: tuple[str, ...]
    learners: tuple[str, ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()  # (name, address) of members that joined


class Configuration(NamedTuple):
    """The members from the entry at `index` on. 0: from the beginning."""

    index: int
    members: Members


def encoded(members: Members) -> bytes:
    addresses = dict(members.addresses)
    roles = {**dict.fromkeys(members.voters, VOTER), **dict.fromkeys(members.learners, LEARNER)}
    parts = [bytes([VERSION]), len(roles).to_bytes(2, "big")]
    for name, role in sorted(roles.items()):
        parts += bytes([role]), text_to(name), text_to(addresses.get(name, ""))
    return b"".join(parts)


def text_to(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def decoded(data: bytes) -> Members:
    """Return the members that an entry names. Raises OtherVersion if this version of highwater cannot read it."""
    if data[:1] != bytes([VERSION]):
        raise OtherVersion(f"an entry with members of version {data[0] if data else 'none'}, and this highwater reads version "
                           f"{VERSION}: start the version of highwater that wrote it")
    try:
        (number,), position = unpack_from(">H", data, 1), 3
        names: dict[int, list[str]] = {VOTER: [], LEARNER: []}
        addresses = []
        for _ in range(number):
            role = data[position]
            name, position = text_at(data, position + 1)
            address, position = text_at(data, position)
            names[role].append(name)
            addresses += [(name, address)] if address else []
    except (error, IndexError, KeyError, UnicodeDecodeError) as problem:
        raise OtherVersion(f"an entry with members of {len(data):,} bytes cannot be read: {problem!r}") from problem
    return Members(tuple(names[VOTER]), tuple(names[LEARNER]), tuple(addresses))


def text_at(data: bytes, start: int) -> tuple[str, int]:
    """Return the text that begins at `start`, and where the next field does."""
    (length,) = unpack_from(">H", data, start)
    end = start + 2 + length
    if end > len(data):
        raise IndexError(f"a text of {length:,} bytes is announced, and {len(data) - start - 2:,} follow")
    return data[start + 2:end].decode(), end


def with_learner(members: Members, name: str, address: str = "") -> Members:
    """Return the members with one more learner; of a member that is there already, with another address."""
    learners = members.learners if name in members.voters else tuple(sorted({*members.learners, name}))
    addresses = {**dict(members.addresses), name: address} if address else dict(members.addresses)
    return Members(members.voters, learners, tuple(sorted(addresses.items())))


def with_voter(members: Members, name: str) -> Members:
    """Return the members with a learner as a voter."""
    return members._replace(voters=tuple(sorted((*members.voters, name))),
                            learners=tuple(other for other in members.learners if other != name))


def without(members: Members, name: str) -> Members:
    return Members(tuple(other for other in members.voters if other != name),
                   tuple(other for other in members.learners if other != name),
                   tuple(one for one in members.addresses if one[0] != name))
