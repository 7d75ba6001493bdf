"""A client that commits through an object store, to be tried by `highwater client test`: `committer.py URL NAME ROUNDS [BUG]`.

Each round it puts a data object, commits it as the next file of a log, and counts the commit in `head.json`. A file of the log
is created only if absent, and the head is replaced only if unchanged. If it does not learn what became of a request, it looks.
With BUG it makes one known mistake: docs/guide/client-test.md lists them.

`committer.py check URL` ends with 1 unless each commit is there once, with its data, and is counted at most once.
"""

import hashlib
import http.client
import json
import os
import sys
import time
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

BUGS = ("double_commit", "lost_update", "blind_overwrite", "stale_read", "deletes_referenced", "success_on_412",
        "success_on_timeout", "error_on_own_commit", "hangs", "told_before", "commit_before_data")
TRIES = 10
TIMEOUT_S = float(os.environ.get("COMMITTER_TIMEOUT_S", "2"))  # of a request
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Committer:
    def __init__(self, url: str, name: str, bug: str):
        self.bucket, _, prefix = url.removeprefix("s3://").partition("/")
        self.prefix, self.name, self.bug = prefix and prefix.rstrip("/") + "/", name, bug
        self.endpoint = os.environ["AWS_ENDPOINT_URL"]
        self.signer = S3SigV4Auth(Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]), "s3",
                                  os.environ["AWS_REGION"])

    # --- requests

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes, str]:
        """Return status, body and ETag. The status is 0 if there was no reply."""
        request = AWSRequest(method, f"{self.endpoint}/{self.bucket}{path}", headers={
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
            **{name.replace("_", "-"): of for name, of in headers.items()}}, data=body)
        self.signer.add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=TIMEOUT_S)
        try:
            connection.request(method, f"/{self.bucket}{path}", body, dict(request.headers.items()))
            reply = connection.getresponse()
            return reply.status, reply.read(), reply.headers.get("ETag", "")
        except (OSError, http.client.HTTPException):
            return 0, b"", ""
        finally:
            connection.close()

    def put(self, key: str, body: bytes, **condition: str) -> str:
        """Return "ok", "conflict" or "unknown"."""
        status, _, _ = self.send("PUT", f"/{self.prefix}{key}", body, **condition)
        return "ok" if status == 200 else "conflict" if status == 412 else "unknown"

    def get(self, key: str, method: str = "GET") -> tuple[bytes, str] | None:
        """Return content and ETag; None if there is nothing."""
        for _ in range(TRIES):
            status, body, etag = self.send(method, f"/{self.prefix}{key}")
            if status in (200, 404):
                return (body, etag) if status == 200 else None
        raise SystemExit(f"{key} cannot be read")

    def keys(self, folder: str) -> list[str]:
        """Return the keys of a folder, which has fewer than a page of them."""
        for _ in range(TRIES):
            status, body, _ = self.send("GET", f"?list-type=2&prefix={quote(self.prefix + folder, safe='')}")
            if status == 200:
                found = ElementTree.fromstring(body).iter(f"{NAMESPACE}Key")
                return sorted((of.text or "").removeprefix(self.prefix) for of in found)
        raise SystemExit(f"{folder} cannot be listed")

    # --- a round

    def round(self, number: int) -> None:
        token, data = f"{self.name}-{number}", f"data/{self.name}-round-{number}.bin"
        if self.bug != "commit_before_data":
            self.put_data(data, token)
        at = self.commit(token, {"token": token, "add": [data]})
        if self.bug == "commit_before_data":
            self.put_data(data, token)
        self.count(token)
        print(f"told committed {at}", flush=True)

    def put_data(self, key: str, token: str) -> None:
        if not any(self.put(key, token.encode()) == "ok" for _ in range(TRIES)):
            raise SystemExit(f"{key} cannot be put")

    def commit(self, token: str, content: dict[str, Any]) -> str:
        body, at = json.dumps(content).encode(), len(self.keys("log/"))
        for _ in range(TRIES):
            key = f"log/{at:08}.json"
            if self.bug == "told_before":
                print(f"told committed {key}", flush=True)
            found = self.put(key, body, **({} if self.bug == "blind_overwrite" else {"If_None_Match": "*"}))
            if self.bug == "told_before" and found != "ok":
                raise SystemExit(f"{key}: {found}")
            if found == "unknown" and self.bug == "deletes_referenced":
                self.send("DELETE", f"/{self.prefix}{content['add'][0]}")
                raise SystemExit(f"{token} has failed, and its data is deleted")
            if found == "unknown" and self.bug == "error_on_own_commit":
                continue
            if found == "unknown" and self.bug == "hangs":
                time.sleep(10_000)
            if found == "ok" or f"success_on_{ {'conflict': '412', 'unknown': 'timeout'}[found]}" == self.bug:
                return key
            if found == "conflict" and self.bug == "error_on_own_commit":
                raise SystemExit(f"{key} exists: somebody else has committed")
            if self.bug == "double_commit":
                at += 1
            elif (there := self.get(key)) and json.loads(there[0])["token"] == token:
                return key
            elif there:
                at += 1
        raise SystemExit(f"{token} cannot be committed")

    def count(self, token: str) -> None:
        """Add the commit to the head."""
        there = self.get("head.json")
        for _ in range(TRIES):
            if self.bug != "stale_read":
                there = self.get("head.json")
            tokens, version = (json.loads(there[0]), there[1]) if there else ([], "")
            if token in tokens:
                return
            if self.bug == "stale_read" and there:
                version = (self.get("head.json", "HEAD") or there)[1]
            condition = {} if self.bug == "lost_update" else {"If_Match": version} if version else {"If_None_Match": "*"}
            if self.put("head.json", json.dumps([*tokens, token]).encode(), **condition) == "ok":
                return
        raise SystemExit(f"{token} cannot be counted")


def check(url: str) -> None:
    of = Committer(url, "check", "")
    commits = [json.loads((of.get(key) or (b"{}", ""))[0]) for key in of.keys("log/")]
    tokens = [commit["token"] for commit in commits]
    assert len(tokens) == len(set(tokens)), f"committed twice: {tokens}"
    missing = {data for commit in commits for data in commit["add"]} - set(of.keys("data/"))
    assert not missing, f"committed, and not there: {missing}"
    counted = json.loads((of.get("head.json") or (b"[]", ""))[0])
    assert len(counted) == len(set(counted)) and set(counted) <= set(tokens), f"counted {counted}, committed {tokens}"


def main() -> None:
    if sys.argv[1] == "check":
        return check(sys.argv[2])
    url, name, rounds, bug = [*sys.argv[1:], ""][:4]
    if bug not in ("", *BUGS):
        raise SystemExit(f"there is no bug {bug!r}; there are {', '.join(BUGS)}")
    committer = Committer(url, name, bug)
    for number in range(int(rounds)):
        committer.round(number)


if __name__ == "__main__":
    main()
