"""Defines all subjects, by name."""

from tests.fuzz import bucket, calls, frames, peers, replies

SUBJECTS = {one.name: one for one in (peers.SUBJECT, frames.SUBJECT, calls.SUBJECT, replies.SUBJECT, bucket.SUBJECT)}
