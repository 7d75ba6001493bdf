"""Change messages of the metadata index at random: a number is at a limit, a text is odd, a part is gone or there twice."""

from random import Random
from typing import Any

INTS = (0, 1, 2, 3, 5, 127, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, -1, -(1 << 31), -(1 << 63), (1 << 64) - 1, 21_600 * 10**9)
TEXTS = ("", "x", "-", "anonymous", "a\0b", "é" * 300, "x" * 600, "01JY5Z1FQ00000000000000002", "7" + "Z" * 25, "!" * 26, "t")
MESSAGE, TEXT, FLAG = 11, 9, 8  # types of protobuf


def damage(message: Any, chance: Random) -> None:
    """Change one field, somewhere in a message."""
    field = chance.choice(list(message.DESCRIPTOR.fields))
    if field.type == MESSAGE:
        damage_part(message, field, chance)
        return
    for _ in range(20):  # until a value fits the field
        value = chance.choice(TEXTS if field.type == TEXT else INTS)
        try:
            if field.is_repeated:
                damage_list(getattr(message, field.name), value, chance)
            else:
                setattr(message, field.name, bool(value) if field.type == FLAG else value)
            return
        except ValueError:
            continue


def damage_list(values: Any, value: Any, chance: Random) -> None:
    kind = chance.randrange(4) if len(values) else 3
    if kind == 0:
        del values[chance.randrange(len(values))]
    elif kind == 1:
        values.append(chance.choice(values))
    elif kind == 2:
        values[chance.randrange(len(values))] = value
    else:
        values.append(value)


def damage_part(message: Any, field: Any, chance: Random) -> None:
    if not field.is_repeated:
        if chance.randrange(8) == 0:
            message.ClearField(field.name)
        else:
            getattr(message, field.name).SetInParent()
            damage(getattr(message, field.name), chance)
        return
    parts = getattr(message, field.name)
    kind = chance.randrange(5) if len(parts) else 0
    if kind == 0:
        parts.add()
    elif kind == 1:
        parts.add().CopyFrom(chance.choice(parts))
    elif kind == 2:
        del parts[chance.randrange(len(parts))]
    if len(parts):
        damage(chance.choice(parts), chance)


def damaged_bytes(body: bytes, chance: Random) -> bytes:
    """Return the body of an entry with some bytes flipped, cut, or put in twice."""
    changed = bytearray(body)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(changed) or 1)
        kind = chance.randrange(3)
        if kind == 0 and changed:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at:at + chance.randrange(1, 9)]
        else:
            changed[at:at] = changed[at:][:chance.randrange(1, 30)]
    return bytes(changed)
