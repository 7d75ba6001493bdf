"""Find a campaign where a command is told that it is: in a folder, or in s3://BUCKET/PREFIX, of which a folder is a copy."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console

from highwater.gate import exits

if TYPE_CHECKING:
    from highwater.dst.campaign.place import Place

S3 = "s3://"


def folder_at(given: str, whole: bool = True) -> Path:
    """Return the folder; of a bucket an up-to-date copy. For arguments of commands that read. Exits with a line."""
    if not given.startswith(S3):
        return Path(given)
    from highwater.dst.campaign.bucket.copy import fetched
    from highwater.dst.campaign.what import CampaignError, Refused

    try:
        return fetched(given.rstrip("/"), whole)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except (CampaignError, OSError) as error:
        stop(exits.HARNESS, str(error))


def folder_to_resume(given: str) -> Path:
    """Return the same, also if parts of a bucket are gone or damaged: their seeds run again."""
    return folder_at(given, whole=False)


def place_at(given: str | Path) -> "Place":
    """Return the place of a campaign to run. `given`: what the user wrote, or what `folder_at` has made of it."""
    from highwater.dst.campaign.folder import url_of
    from highwater.dst.campaign.place import Folder
    from highwater.dst.campaign.what import Refused

    url = str(given) if str(given).startswith(S3) else url_of(Path(given))
    if not url:
        return Folder(Path(given))
    from highwater.dst.campaign.bucket.driver import Bucket  # it imports boto3, which is slow

    try:
        place = Bucket(url)
        check_store(place)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    return place


def check_store(place: "Place") -> None:
    """Ask the store for the one guarantee that a journal needs, a PUT that creates an object only if there is none. Exits if it
    has not, or cannot be asked."""
    from highwater.dst.campaign.bucket.parts import bucket_of
    from highwater.probe.run import NoStore
    from highwater.probe.trusted import faults_of_create

    bucket, prefix = bucket_of(place.name)
    try:
        faults = faults_of_create(bucket, prefix and f"{prefix}/")
    except NoStore as error:
        stop(exits.BAD_INPUT, f"{place.name} cannot be used: {error}")
    if faults:
        stop(exits.BAD_INPUT, f"{place.name} cannot hold a campaign, because its store does not create an object only if there "
             f"is none ({'; '.join(faults)}): `highwater store probe {place.name}` says more")


def stop(code: int, message: str) -> NoReturn:
    sys.stdout.flush()
    Console(emoji=False, stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)
    raise typer.Exit(code)
