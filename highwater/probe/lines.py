"""Safety: a store is called safe in a respect only if it was seen to do what the protocols rely on.

These are the lines of the probe: the requests, the answers, and their meaning. `pass`: as S3's documentation says. `differs`:
another answer, which misleads no client. `unsafe`: a client that relies on it loses data.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from highwater.dst.scenarios import STEMS, named
from highwater.impl.stores.s3 import PUT_ID
from highwater.probe.asking import Answer, Asker

PASS, DIFFERS, UNSAFE, NOT_ASKED = "pass", "differs but safe", "unsafe", "not asked"

# Lines name the protocols that rely on them; each scenario of dst/scenarios/ says what it needs ..
NEEDS = {stem: needs for stem in STEMS if (needs := named(stem).needs) is not None}
CREATE, UPDATE, CACHE, LIST = (tuple(stem for stem, needs in NEEDS.items() if need in needs)
                               for need in ("create", "update", "cache", "list"))
PROTOCOLS = tuple(NEEDS)
# .. and features that only other programs use:
OTHERS = {"conditional_delete": "DELETE If-Match", "copy_if_absent": "CopyObject If-None-Match",
          "upload_if_absent": "uploads in parts, completed If-None-Match",
          "unquoted_update": "PUT If-Match, the ETag without its quotes",
          "reads_in_parts": "several GETs of one object, of ranges of bytes, If-Match of its version",
          "any_key": "keys beyond ASCII, keys below keys"}


class Found(NamedTuple):
    """The result of one line."""

    verdict: str
    saw: str
    data: dict[str, object] = {}  # noqa: RUF012 the observed fields of a Profile
    by_effect: bool = False  # the request had no definite answer, and the verdict is about its effect


class Line(NamedTuple):
    """One line of the probe."""

    name: str
    asks: str
    uses: tuple[str, ...]  # the protocols and features at risk if it is unsafe
    ask: Callable[[Asker], Found]


def judged(answer: Answer, expected: int, held: bool, **data: object) -> Found:
    """Judge a request that must be refused. `held` says that it changed nothing."""
    if answer.done or not held:
        return Found(UNSAFE, f"{answer}: " + ("the condition is ignored" if answer.done else "and yet it was applied"),
                     dict.fromkeys(data, 200), not answer.definite)
    return Found(PASS if answer.status == expected else DIFFERS, str(answer), data, answer.failed)


def succeeded(answer: Answer, *statuses: int, **data: object) -> Found:
    """Judge a request that must succeed. A refusal misleads no client."""
    if answer.done:
        return Found(PASS if answer.status in (statuses or (200,)) else DIFFERS, str(answer), data)
    return Found(DIFFERS, f"{answer}: it cannot be used", data)


def written(s: Asker, answer: Answer, body: bytes) -> Found:
    """Judge a PUT that must succeed, by the object. An error that is not definite misleads no client either way."""
    there = s.get("k").body == body
    if answer.done:
        return succeeded(answer) if there else Found(UNSAFE, f"{answer}, and it is not there")
    if there and answer.definite:
        return Found(UNSAFE, f"{answer}: and yet it was applied")
    return Found(DIFFERS, f"{answer}, although it was applied" if there else f"{answer}: it cannot be used", {}, answer.failed)


def create_new(s: Asker) -> Found:
    return written(s, s.create("k", b"1"), b"1")


def create_exists(s: Asker) -> Found:
    s.create("k", b"1")
    answer = s.create("k", b"2")
    return judged(answer, 412, s.get("k").body == b"1", create_exists=answer.status)


def create_after_delete(s: Asker) -> Found:
    s.create("k", b"1")
    s.delete("k")
    return written(s, s.create("k", b"2"), b"2")


def update_current(s: Asker) -> Found:
    return written(s, s.update("k", b"2", s.put("k", b"1").version), b"2")


def update_stale(s: Asker) -> Found:
    version = s.put("k", b"1").version
    s.put("k", b"2")
    answer = s.update("k", b"3", version)
    return judged(answer, 412, s.get("k").body == b"2", update_stale=answer.status)


def update_missing(s: Asker) -> Found:
    answer = s.update("k", b"2", s.put("other", b"1").version)
    return judged(answer, 404, s.get("k").status == 404, update_missing=answer.status)


def update_deleted(s: Asker) -> Found:
    version = s.put("k", b"1").version
    s.delete("k")
    answer = s.update("k", b"2", version)
    return judged(answer, 404, s.get("k").status == 404)


def update_weak(s: Asker) -> Found:
    answer = s.update("k", b"2", f"W/{s.put('k', b'1').version}")
    return Found(PASS if answer.status == 412 else DIFFERS, str(answer), {"update_weak": answer.status})


def update_unquoted(s: Asker) -> Found:
    """Some clients send the ETag without its quotes. A store that takes that for no condition loses their updates."""
    first = s.put("k", b"1").version
    current = s.update("k", b"2", s.put("k", b"0").version.strip('"'))
    stale = s.update("k", b"3", first.strip('"'))
    if stale.done or s.get("k").body == b"3":
        return Found(UNSAFE, f"{stale} for a version that it had: the condition is ignored")
    return Found(PASS if (current.status, stale.status) == (200, 412) else DIFFERS, f"{current}, then {stale}")


def unchanged(method: str) -> Callable[[Asker], Found]:
    def ask(s: Asker) -> Found:
        read = getattr(s, method)
        version = s.put("k", b"1").version
        same = read("k", IfNoneMatch=version)
        s.put("k", b"2")
        changed = read("k", IfNoneMatch=version)
        if not changed.done or changed.version == version:
            return Found(UNSAFE, f"{changed} when it had changed")
        data = {"get_unchanged": same.status} if method == "get" else {}
        return Found(PASS if same.status == 304 else DIFFERS, str(same), data)

    return ask


def get_other_forms(s: Asker) -> Found:
    version = s.put("k", b"1").version
    weak = s.get("k", IfNoneMatch=f"W/{version}")
    bare = s.get("k", IfNoneMatch=version.strip('"') if version[:1] == '"' else f'"{version}"')
    return Found(PASS if weak.status == bare.status == 304 else DIFFERS, f"weak {weak}, quotes changed {bare}",
                 {"get_weak": weak.status, "get_requoted": bare.status})


def missing(s: Asker) -> Found:
    answers = s.get("no"), s.head("no")
    verdict = UNSAFE if any(a.done for a in answers) else PASS if all(a.status == 404 for a in answers) else DIFFERS
    return Found(verdict, f"GET {answers[0]}, HEAD {answers[1]}")


def get_stale(s: Asker) -> Found:
    version = s.put("k", b"1").version
    s.put("k", b"2")
    return judged(s.get("k", IfMatch=version), 412, True)


def get_range(s: Asker) -> Found:
    """A 200 with the whole object misleads no client that looks at the status."""
    body = bytes(range(100))
    version = s.put("k", body).version
    saw: list[str] = []
    for asked, first, end in (("bytes=10-19", 10, 20), ("bytes=90-199", 90, 100), ("bytes=0-0", 0, 1)):
        answer = s.get("k", Range=asked)
        right = body[first:end] if answer.status == 206 else body
        if answer.done and (answer.body != right or answer.version != version):
            return Found(UNSAFE, f"{asked} of 100 bytes: {answer} with {len(answer.body)} bytes that are not those")
        saw.append(str(answer))
    beyond = s.get("k", Range="bytes=100-109")
    if beyond.status == 206 or (beyond.done and beyond.body != body):
        return Found(UNSAFE, f"bytes=100-109 of 100 bytes: {beyond} with {len(beyond.body)} bytes")
    return Found(PASS if [*saw, str(beyond.status)] == ["206", "206", "206", "416"] else DIFFERS,
                 f"{', '.join(saw)}; beyond the end {beyond}")


def delete_there(s: Asker) -> Found:
    s.put("k", b"1")
    answer = s.delete("k")
    return succeeded(answer, 204) if s.get("k").status == 404 else Found(UNSAFE, f"{answer}, and it is still there")


def delete_missing(s: Asker) -> Found:
    answer = s.delete("k")
    return Found(PASS if answer.status == 204 else DIFFERS, str(answer), {"delete_missing": answer.status})


def delete_stale(s: Asker) -> Found:
    version = s.put("k", b"1").version
    s.put("k", b"2")
    answer = s.delete("k", IfMatch=version)
    return judged(answer, 412, s.get("k").body == b"2")


def delete_current(s: Asker) -> Found:
    return succeeded(s.delete("k", IfMatch=s.put("k", b"1").version), 204)


def complete_exists(s: Asker) -> Found:
    s.put("k", b"1")
    started = s.client.create_multipart_upload(**s.at("k"))["UploadId"]
    part = s.client.upload_part(**s.at("k"), UploadId=started, PartNumber=1, Body=b"2")["ETag"]
    answer = s.ask(s.client.complete_multipart_upload, **s.at("k"), UploadId=started, IfNoneMatch="*",
                   MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    return judged(answer, 412, s.get("k").body == b"1")


def copy_exists(s: Asker) -> Found:
    s.put("k", b"1")
    s.put("from", b"2")
    source = {"Bucket": s.bucket, "Key": s.prefix + "from"}
    answer = s.ask(s.client.copy_object, **s.at("k"), CopySource=source, IfNoneMatch="*")
    return judged(answer, 412, s.get("k").body == b"1")


def version_kind(s: Asker) -> Found:
    versions = [s.put("k", body).version for body in (b"A", b"B", b"A")]
    if not all(versions) or versions[0] == versions[1]:
        return Found(UNSAFE, f"other bytes have the same version: {versions[:2]}")
    if versions[0] == versions[2]:
        aba = s.update("k", b"C", versions[0])
        return Found(DIFFERS, "a digest: the same bytes written again have the same version (ABA), and an update that names "
                     f"the first is told {aba}", {"version": "digest"})
    rising = all(v.strip('"').isdigit() for v in versions) and sorted(versions, key=lambda v: int(v.strip('"'))) == versions
    return Found(PASS, "never given twice", {"version": "generation" if rising else "random"})


def metadata(s: Asker) -> Found:
    s.put("k", b"1", Metadata={PUT_ID: "id1"})
    found = {name.lower(): value for name, value in s.head("k").metadata.items()}
    kept = found.get(PUT_ID) == "id1"
    return Found(PASS if kept else DIFFERS, "kept" if kept else "lost: a lost reply can then never be resolved")


def last_modified(s: Asker) -> Found:
    before_ms = time.time() * 1000
    s.put("k", b"1")
    after_ms = time.time() * 1000
    found_ms = s.head("k").last_modified_ms
    apart_ms = max(before_ms - 1000 - found_ms, found_ms - after_ms, 0)
    saw = f"its clock is {apart_ms / 1000:.1f} s from ours" if apart_ms else "its clock is ours"
    return Found(PASS if apart_ms < 5000 else DIFFERS, saw + ("" if apart_ms < 5000 else ": min_age must exceed that"))


def list_order(s: Asker) -> Found:
    keys = [f"k/{name}" for name in ("b", "-", "a", "0", "!", "Z", "~")]
    for key in keys:
        s.put(key, b"")
    found = s.listed("k/")
    if sorted(found) != sorted(keys):
        return Found(UNSAFE, f"{len(set(keys) - set(found))} of {len(keys)} keys are missing")
    ordered = found == sorted(keys)
    return Found(PASS if ordered else UNSAFE, "in order" if ordered else "in no order", {"lexicographic": ordered})


def list_utf8(s: Asker) -> Found:
    keys = ["k/a b", "k/z", "k/é", "k/\uff5e", "k/\U0001f600"]
    for key in reversed(keys):
        s.put(key, b"")
    found = s.listed("k/")
    if sorted(found) != sorted(keys):
        return Found(UNSAFE, f"{len(set(keys) - set(found))} of {len(keys)} keys are missing")
    return Found(PASS if found == keys else DIFFERS, "by bytes of UTF-8" if found == keys else "in another order")


def list_pages(s: Asker) -> Found:
    keys = [f"{number:020}.manifest" for number in range(1, 31)]
    for key in keys:
        s.put(key, b"")
    for size in (1, 7, 30):
        found = s.listed(MaxKeys=size)
        if found != keys:
            return Found(UNSAFE, f"pages of {size} have {len(set(found))} of {len(keys)} keys, {len(found)} entries")
    return Found(PASS, "30 keys, in pages of 1, 7 and 30")


def list_after(s: Asker) -> Found:
    keys = [f"{number:020}" for number in range(2, 20, 2)]
    for key in keys:
        s.put(key, b"")
    for after in (keys[0], keys[4], keys[-1], f"{1:020}", f"{7:020}", "z"):
        found = s.listed(StartAfter=s.prefix + after)
        if found != [key for key in keys if key > after]:
            return Found(UNSAFE, f"after {after}: {len(found)} keys")
    return Found(PASS, "after a key that is there, and one that is not")


def list_prefix(s: Asker) -> Found:
    for key in ("a/1", "a/10", "a/2", "ab/1", "b"):
        s.put(key, b"")
    found = {prefix: s.listed(prefix) for prefix in ("a/", "a/1", "a", "c")}
    right = {"a/": ["a/1", "a/10", "a/2"], "a/1": ["a/1", "a/10"], "a": ["a/1", "a/10", "a/2", "ab/1"], "c": []}
    return Found(PASS, "") if found == right else Found(UNSAFE, "others, or not all")


def list_fresh(s: Asker) -> Found:
    for number in range(20):
        s.put(f"{number:02}", b"")
        if f"{number:02}" not in s.listed():
            return Found(UNSAFE, "a key that was put is not listed", {"stale": 1})
        if number % 2:
            s.delete(f"{number:02}")
            if f"{number:02}" in s.listed():
                return Found(UNSAFE, "a key that was deleted is listed", {"stale": 1})
    return Found(PASS, "what was put is listed at once, what was deleted is not", {"stale": 0})


def key_and_folder(s: Asker) -> Found:
    first, second = s.put("a", b"1"), s.put("a/b", b"2")
    if not second.done:
        whole = s.get("a").body == b"1" and s.listed() == ["a"]
        return Found(DIFFERS if whole else UNSAFE, f"the second is refused: {second}")
    there = s.get("a").body == b"1" and s.get("a/b").body == b"2" and s.listed() == ["a", "a/b"]
    return Found(PASS if there else UNSAFE, "both are there" if there else f"{first}, {second}, and one is not listed or lost")


ONE_CLIENT = (
    Line("create_new", "PUT If-None-Match: *, there being none", CREATE, create_new),
    Line("create_exists", "PUT If-None-Match: *, there being one", CREATE, create_exists),
    Line("create_after_delete", "the same, it having been deleted", CREATE, create_after_delete),
    Line("update_current", "PUT If-Match of the version that it has", UPDATE, update_current),
    Line("update_stale", "PUT If-Match of one that it had", UPDATE, update_stale),
    Line("update_missing", "PUT If-Match, there never having been one", UPDATE, update_missing),
    Line("update_deleted", "PUT If-Match, it having been deleted", UPDATE, update_deleted),
    Line("update_weak", "PUT If-Match of its version as a weak one", UPDATE, update_weak),
    Line("update_unquoted", "PUT If-Match of its version without the quotes, then of one that it had", ("unquoted_update",),
         update_unquoted),
    Line("get_unchanged", "GET If-None-Match of its version; then it changes", CACHE, unchanged("get")),
    Line("head_unchanged", "HEAD If-None-Match, likewise", CACHE, unchanged("head")),
    Line("get_other_forms", "GET If-None-Match of its version as a weak one, or without its quotes", CACHE, get_other_forms),
    Line("missing", "GET and HEAD of what is not there", PROTOCOLS, missing),
    Line("get_stale", "GET If-Match of a version that it had", ("reads_in_parts",), get_stale),
    Line("get_range", "GET Range inside, across and behind the end", ("reads_in_parts",), get_range),
    Line("delete_there", "DELETE", PROTOCOLS, delete_there),
    Line("delete_missing", "DELETE of what is not there", PROTOCOLS, delete_missing),
    Line("delete_current", "DELETE If-Match of the version that it has", ("conditional_delete",), delete_current),
    Line("delete_stale", "DELETE If-Match of one that it had", ("conditional_delete",), delete_stale),
    Line("complete_exists", "CompleteMultipartUpload If-None-Match: *, there being one", ("upload_if_absent",),
         complete_exists),
    Line("copy_exists", "CopyObject If-None-Match: *, there being one", ("copy_if_absent",), copy_exists),
    Line("version", "what an ETag is", UPDATE, version_kind),
    Line("metadata", "user metadata, which holds the id of a PUT", CREATE, metadata),
    Line("last_modified", "the clock by which files grow old", LIST, last_modified),
    Line("list_order", "LIST is in the order of keys", LIST, list_order),
    Line("list_utf8", "keys beyond ASCII", ("any_key",), list_utf8),
    Line("list_pages", "every key once, on pages of any size", LIST, list_pages),
    Line("list_after", "LIST start-after", LIST, list_after),
    Line("list_prefix", "LIST prefix", LIST, list_prefix),
    Line("list_fresh", "LIST after PUT and DELETE", LIST, list_fresh),
    Line("key_and_folder", "keys a and a/b together", ("any_key",), key_and_folder),
)
