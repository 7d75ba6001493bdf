"""Safety: a key names the same object in every store here, and never a file outside of the store's own folder.

All stores share one rule, so that a program that runs on one of them runs on each.
"""

OWN_FOLDER = ".highwater"  # holds LocalStore's locks and temporary files; no key may lead into it


def escaped(text: str) -> str:
    """Return a text from outside for a terminal or a log: what cannot be printed is shown by its escape, as by `repr`."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def check_key(key: str) -> None:
    """Check that every store here can hold this key. Raises ValueError, which names the key and the fault."""
    fault = fault_of(key)
    if fault:
        raise ValueError(f"bad key {key!r}: {fault}")


def fault_of(key: str) -> str:
    """Return why `key` cannot be the key of an object; empty if it can."""
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError:
        return "UTF-8 cannot encode it"
    segments = key.split("/")
    if not key:
        return "it is empty"
    if key.startswith("/"):
        return "it begins with a slash"
    if "" in segments:
        return "it has an empty segment"
    if "." in segments or ".." in segments:
        return "a segment of it is . or .."
    if segments[0] == OWN_FOLDER:
        return f"{OWN_FOLDER} is the store's own folder"
    if "\0" in key:
        return "it has a zero byte"
    if size_bytes > 1024:
        return "it is longer than 1,024 bytes, which S3 refuses"
    if any(len(segment.encode()) > 255 for segment in segments):
        return "a segment of it is longer than 255 bytes, which file systems refuse"
    return ""
