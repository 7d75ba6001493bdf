"""How object stores answer conditional requests, as data. A protocol may rely on what all of them do.

Nothing else in the simulator knows a store by name. A field named in `unverified` is from memory or guessed by similarity, and
was not checked against a document or a server. The other fields are from the fault catalogue (F1-F25), from measurements, from
the stores' documents, or from the threads named beside them. A 0 in the last two fields means that no such behaviour is known.

Success is 200, and 204 for a delete, for all stores, although some return 201 or 202.
"""

from typing import NamedTuple

from highwater.impl.errors import (
    AlreadyExists,
    BeyondEnd,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
    Unavailable,
)

READS = ("get", "get_range", "get_if_changed", "head", "list")


class Profile(NamedTuple):
    """The answers of one store. The defaults are those of most stores with the S3 API."""

    name: str
    create_exists: int = 412  # status of `If-None-Match: *` if the object exists; 200: the condition is ignored
    create_contended: int = 0  # status of a create while another mutation of the key is in flight, not applied; 0: it proceeds
    update_stale: int = 412  # status of `If-Match` of another version; 200: the condition is ignored
    update_missing: int = 412  # status of `If-Match` without an object; 200: it is created
    update_contended: int = 0  # the same for an update
    update_weak: int = 412  # status of `If-Match` of the current version, marked as weak: `W/`
    get_unchanged: int = 304  # status of GET `If-None-Match` of the current version
    get_weak: int = 304  # the same, marked as weak: `W/`
    get_requoted: int = 304  # the same, with quotes removed or added
    version: str = "digest"  # digest of the content: ABA; generation: a rising number; random: never given twice
    delete_missing: int = 204  # status of DELETE without an object
    delete_many: int = 1000  # most keys of one multi-delete; more: 400, and none is deleted
    page_size: int = 1000  # keys on one page of a LIST
    empty_pages: bool = False  # an empty page may have a continuation token, so it is not the last
    lexicographic: bool = True  # LIST returns keys in lexicographic order
    last_modified_ms: int = 1000  # Last-Modified is rounded down to a multiple of this
    throttled: int = 503  # status if requests are too many
    mutation_gap_ms: int = 0  # least time between two mutations of one object; else `throttled`
    stale: int = 0  # number of changes by which GET and LIST may lag
    unverified: tuple[str, ...] = ()


# No document says so, but a store with the S3 API most likely does as S3 does.
LIKE_S3 = ("update_weak", "get_weak", "get_requoted", "delete_missing", "delete_many", "last_modified_ms", "throttled")

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (
    # PutObject in the API reference and «conditional writes» in the user guide: 412, 404 and 409; F6, F7, F10, F15, F17, F19.
    # The digest is not of objects encrypted with KMS or put in parts: theirs is opaque.
    Profile("s3", create_contended=409, update_missing=404, update_contended=409, empty_pages=True,
            unverified=("update_weak", "get_weak", "get_requoted", "delete_many")),
    # «Differences for directory buckets» in the user guide: order of LIST, ETags.
    Profile("s3express", create_contended=409, update_missing=404, update_contended=409, version="random", empty_pages=True,
            lexicographic=False, unverified=("create_contended", "update_contended", "update_missing", "get_unchanged",
                                             "page_size", "empty_pages", *LIKE_S3)),
    # F9, F10, F19; its condition is x-goog-if-generation-match (0: absent).
    Profile("gcs", version="generation", get_weak=200, delete_missing=404, delete_many=100, empty_pages=True,
            last_modified_ms=1, throttled=429, mutation_gap_ms=1000, unverified=(
                "create_contended", "update_stale", "update_missing", "update_contended", "update_weak", "get_unchanged",
                "get_weak", "get_requoted", "delete_missing", "delete_many", "page_size", "empty_pages", "lexicographic",
                "last_modified_ms")),
    # F9 has 412 and 409 (BlobAlreadyExists among the error codes) of create; Azurite#2589 412 of update; F19.
    Profile("azure", create_exists=409, version="random", delete_missing=404, delete_many=256, page_size=5000, empty_pages=True,
            unverified=("create_exists", "create_contended", "update_contended", "get_unchanged", "page_size",
                        "empty_pages", "lexicographic", *LIKE_S3)),
    # F9; «conditional operations» and «limits» in its documents: one write a second to one key, else 429.
    # cloudflare-docs#32793 asks what two creates at once are told.
    Profile("r2", throttled=429, mutation_gap_ms=1000, unverified=(
        "create_contended", "update_stale", "update_missing", "update_contended", "get_unchanged", "version", "page_size",
        "empty_pages", "lexicographic", *[name for name in LIKE_S3 if name != "throttled"])),
    # minio#21526: an update of a missing object was accepted. A later MinIO was run: 404, and the rest as here.
    Profile("minio-2025-08", update_missing=200, unverified=("update_contended", "create_contended", "empty_pages", *LIKE_S3)),
    # minio#19442, fixed 2024-04: 304 to a PUT If-None-Match. (There of an ETag; of `*`, F9.)
    Profile("minio-2024-03", create_exists=304, update_missing=200, unverified=(
        "create_exists", "create_contended", "update_stale", "update_missing", "update_contended", "get_unchanged",
        "empty_pages", *LIKE_S3)),
    # F7, minio#21526; ceph#63348 (merged 2025) answers 404 to an update of a missing object.
    Profile("ceph", unverified=("create_contended", "update_contended", "get_unchanged", "version", "page_size",
                                "empty_pages", "lexicographic", *LIKE_S3)),
    # pithings/mountx#19, F8: conditions of a PUT were parsed and dropped. Two owners at one epoch, every time.
    Profile("mountx-2026-08", create_exists=200, update_stale=200, update_missing=200, update_weak=200, unverified=(
        "create_contended", "update_missing", "update_contended", "get_unchanged", "version", "page_size", "empty_pages",
        "lexicographic", *LIKE_S3)),
    # RFC 9110: 412 and 304 in 13.1.1, 13.1.2 and 13.2.2; weak and strong comparison in 8.8.3.2; a date has whole seconds.
    # It leaves open the answer to a DELETE of a missing object, and the limits; these are our choices.
    Profile("strict-rfc9110", version="random", get_requoted=200, delete_missing=404, unverified=(
        "create_contended", "update_contended", "version", "delete_missing", "delete_many", "page_size", "empty_pages",
        "lexicographic", "throttled")),
    # Not a real store: S3 with reads that lag, to show which guarantees a protocol needs.
    Profile("eventual", create_contended=409, update_missing=404, update_contended=409, empty_pages=True, stale=3),
)}
S3 = PROFILES["s3"]


def scaled(profile: Profile, second_ms: int) -> Profile:
    """Return the profile for a run in which a second lasts `second_ms`: a run's times are fractions of real ones."""
    return profile._replace(last_modified_ms=max(profile.last_modified_ms * second_ms // 1000, 1),
                            mutation_gap_ms=profile.mutation_gap_ms * second_ms // 1000)


def error_of(profile: Profile, op: str, status: int, key: str) -> StoreError | None:
    """Return the error that a careful client derives from a status (0: no response); None if the status is no error.

    impl/stores/s3.py does the same after it has given up repeating the request and found no trace of it. A 409 does not prove
    that the object exists, unless the store has no other way to say so. A 503 to a mutation leaves its outcome indeterminate: a
    store that lost some of its disks answers so for a change that the others have kept."""
    if 200 <= status < 300 or (op == "get_if_changed" and status == 304) or (op == "delete" and status == 404):
        return None
    if status == 404 and op in ("get", "get_range", "get_if_changed", "head"):
        return NotFound(key)
    if status == 416 and op == "get_range":
        return BeyondEnd(key)
    if op == "create" and (status == 412 or status == profile.create_exists != profile.create_contended):
        return AlreadyExists(key)
    if op == "update" and status in (404, 412):
        return PreconditionFailed(key)
    said = f"{op} {key}: {f'{status} from {profile.name}' if status else 'no answer'}"
    doubt = op not in READS and (status < 300 or status == 408 or status >= 500)
    return OutcomeUnknown(said) if doubt else Unavailable(said)
