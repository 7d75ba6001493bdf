"""Encodes and decodes the manifests of databases that have clones: our JSON of a database, with two fields more.

    {..,"external_dbs":[{"final":"..","path":"..","source":"..","ssts":[".."]}],"initialized":true}

`external_dbs` has an entry for each database whose SSTs the manifest names: impl/codecs/slatedb/tables.py. `initialized` says
that the database is no clone that is still being made. Both are always written.
"""

import json
from typing import Any

from highwater.impl.codecs.json.manifest import DATABASE, ENCODER, Checkpoint, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb

EXTERNAL, INITIALIZED = "external_dbs", "initialized"


class DatabaseCodec:
    """The codec of manifests that carry all that databases and their clones need."""

    checkpoint = Checkpoint

    def encode(self, manifest: Manifest) -> bytes:
        """Encode a manifest. Raises CannotHold."""
        document = json.loads(DATABASE.encode(manifest._replace(external_dbs=(), initialized=False)))
        document[INITIALIZED] = manifest.initialized
        document[EXTERNAL] = [{"path": of.path, "source": of.source_checkpoint_id, "final": of.final_checkpoint_id,
                               "ssts": list(of.sst_ids)} for of in manifest.external_dbs]
        return ENCODER.encode(document).encode()

    def decode(self, body: bytes) -> Manifest:
        """Decode the bytes of a file. Raises InvalidManifest."""
        try:
            document: dict[str, Any] = json.loads(body)
            initialized, entries = document.pop(INITIALIZED), document.pop(EXTERNAL)
            external = tuple(ExternalDb(of["path"], of["source"], of["final"], tuple(of["ssts"])) for of in entries)
            if type(initialized) is not bool:
                raise TypeError(f"{INITIALIZED} is {initialized!r}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidManifest(f"not a manifest of a database with clones: {body[:60]!r}: {error}") from None
        return DATABASE.decode(json.dumps(document).encode())._replace(external_dbs=external, initialized=initialized)

    @staticmethod
    def is_initialized(manifest: Manifest) -> bool:
        """Return whether the database may be used: it is not a clone that is still being made."""
        return manifest.initialized


CLONED = DatabaseCodec()
