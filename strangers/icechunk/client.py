"""icechunk: `client.py create URL`; `commit URL NAME FROM TO`: an attribute for each commit; `check URL`: no commit twice."""

import os
import sys

import icechunk
import zarr


def repository(url: str, create: bool = False) -> icechunk.Repository:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    storage = icechunk.s3_storage(bucket=bucket, prefix=prefix or "repo", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                                  allow_http=True, force_path_style=True, region="us-east-1", from_env=True)
    return (icechunk.Repository.create if create else icechunk.Repository.open)(storage)


def create(url: str) -> None:
    repository(url, create=True)


def commit(url: str, name: str, first: str, last: str) -> None:
    for number in range(int(first), int(last)):
        session = repository(url).writable_session("main")
        zarr.open_group(session.store, mode="a").attrs[f"{name}-{number}"] = number
        session.commit(f"{name}-{number}")


def check(url: str) -> None:
    messages = [snapshot.message for snapshot in repository(url).ancestry(branch="main")]
    assert len(messages) == len(set(messages)), messages


if __name__ == "__main__":
    {"create": create, "commit": commit, "check": check}[sys.argv[1]](*sys.argv[2:])
