"""Renders our manifests and compactions files as a released client's admin shows them, so that every field is compared."""

from typing import Any

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.tables import EXCLUDED, INCLUDED, STATUSES, Range, SstInfo, View

COMPRESSIONS = {0: None}
SST_TYPES = {0: "COMPACTED", 1: "WAL"}
FILTER_FORMATS = {0: "LEGACY", 1: "COMPOSITE"}
COMPUTED = {"estimated_size_bytes", "has_l0_sources", "has_sr_sources", "active", "bytes_processed"}  # in no file


def text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("latin-1")


def span(visible: Range | None) -> dict | None:
    if visible is None:
        return None
    return {"start": text(visible.start.key), "start_inclusive": visible.start.kind == INCLUDED,
            "end": text(visible.end.key), "end_inclusive": visible.end.kind != EXCLUDED}


def info_of(info: SstInfo) -> dict:
    return info._asdict() | {"first_entry": text(info.first_entry), "last_entry": text(info.last_entry),
                             "compression_codec": COMPRESSIONS[info.compression], "sst_type": SST_TYPES[info.sst_type],
                             "filter_format": FILTER_FORMATS[info.filter_format]}


def manifest_of(file_id: int, manifest: Manifest) -> dict[str, Any]:
    ssts = {sst.id: sst for sst in manifest.ssts}

    def view_of(view: View) -> dict:
        sst = ssts[view.sst_id]
        return {"id": view.id, "sst": {"id": sst.id, "info": info_of(sst.info)}, "visible_range": span(view.visible_range)}

    return manifest._asdict() | {
        "id": file_id, "last_compacted_l0_sst_view_id": manifest.last_compacted_l0_view_id,
        "l0": [view_of(view) for view in manifest.l0],
        "compacted": [{"id": run.id, "sst_views": [view_of(view) for view in run.views]} for run in manifest.compacted],
        "next_wal_sst_id": manifest.wal_id_last_seen + 1, "segments": [],
        "checkpoints": [{"id": one.id, "manifest_id": one.manifest_id, "expire_time_secs": one.expire_time_s or None,
                         "create_time_secs": one.create_time_s, "name": one.name} for one in manifest.checkpoints],
        "external_dbs": [one._asdict() | {"sst_ids": list(one.sst_ids)} for one in manifest.external_dbs]}


def compactions_of(file_id: int, compactions: Compactions) -> dict[str, Any]:
    def compaction_of(one):
        runs = [*({"SST_VIEW": name} for name in one.spec.l0_view_ids), *({"SORTED_RUN": run} for run in one.spec.sorted_runs)]
        return {"id": one.id, "spec": {"segment": text(one.spec.segment), "sources": runs, "destination": one.spec.destination},
                "status": STATUSES[one.status].upper(),
                "output_ssts": [{"id": sst.id, "info": info_of(sst.info)} for sst in one.output_ssts]}

    return {"id": file_id, "compactor_epoch": compactions.compactor_epoch,
            "recent_compactions": [compaction_of(one) for one in compactions.recent_compactions]}


def plainly(shown: Any) -> Any:
    """Drop computed fields and normalise ids and sources, so that all releases show the same."""
    if isinstance(shown, list):
        return [plainly(one) for one in shown]
    if not isinstance(shown, dict):
        return shown
    kind, _, variant = shown.get("is", "").partition(".")
    if kind == "SsTableId":
        return shown["value"] if "value" in shown else shown["_values"][0]
    if kind == "SourceId":
        return {variant: plainly(shown["_values"][0])}
    return {name: plainly(value) for name, value in shown.items() if name not in COMPUTED | {"is"}}


def differences(shown: Any, ours: Any, path: str = "") -> list[str]:
    """Every place where what is shown is not what we say; fields that only we have are no difference."""
    if isinstance(shown, dict):
        return [found for name in shown for found in (
            differences(shown[name], ours[name], f"{path}.{name}") if name in ours else [f"{path}.{name} is not ours"])]
    if isinstance(shown, list) and isinstance(ours, list) and len(shown) == len(ours):
        return [found for i, (one, other) in enumerate(zip(shown, ours)) for found in differences(one, other, f"{path}[{i}]")]
    return [] if shown == ours else [f"{path}: {shown!r}, ours {ours!r}"]
