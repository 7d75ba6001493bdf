"""Checksums of the index's bytes: CRC-32C (Castagnoli) in footers and snapshots, xxh64 in names of jobs."""

import google_crc32c
import xxhash


def crc32c(body: bytes, before: int = 0) -> int:
    """Return the CRC-32C of `body`; with the CRC of what stands `before` it, that of both."""
    return google_crc32c.extend(before, body)


def xxh64(body: bytes) -> int:
    return xxhash.xxh64_intdigest(body)
