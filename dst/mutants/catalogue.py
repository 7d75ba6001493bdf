"""The bugs of real systems, and the mutants that have them. docs/simulation/zoo.md shows this table."""

DATA_FILES = "data files and their collection (SlateDB's RFC on checkpoints and clones)"
SNAPSHOTS = "checkpoints that readers hold (SlateDB's RFC on checkpoints and clones)"
CATALOGUE: dict[str, tuple[str, tuple[str, ...] | str]] = {  # id -> the bug; its mutants
    # (protocol/mutant for other protocols), or the missing model
    "Z1": ("a stale writer creates a sequenced file again after its collection (SlateDB's RFC on GC boundary files, "
           "slatedb#352, #1646)",
           ("no_check", "one_old_writer", "reported_though_refused", "refused_is_applied_again")),
    "Z2": ("a stale writer creates a WAL file again after its collection (slatedb#1622)",
           ("wal_fencing/unchecked", "wal_fencing/fence_not_ahead")),
    "Z3": ("the writer checks the boundary only before the create", ("check_before_create",)),
    "Z4": ("the collector deletes before the boundary is durable", ("delete_before_advance",)),
    "Z5": ("the boundary moves backward", ("boundary_moves_backward",)),
    "Z6": ("a cache answers the check of the boundary (CachedObjectStore in SlateDB's RFC on GC boundary files)",
           ("cached_boundary",)),
    "Z7": ("an indeterminate create is treated as a conflict, and its update appended again",
           ("lost_reply_is_conflict", "Z7")),
    "Z8": ("an indeterminate commit is treated as a failure, and its files are deleted (ClickHouse#112081)",
           ("Z8", "timeout_is_nothing")),
    "Z9": ("a writer that gets 412 for its own write believes that it is fenced (slatedb#564)", ("Z9", "Z9_fenced")),
    "Z10": ("409 is treated as AlreadyExists (object_store#852)", ("Z10",)),
    "Z11": ("a compaction's output is collected before the manifest names it (slatedb#1029, #1031)",
            ("checkpoints/listed_ssts",)),
    "Z12": ("a data file is collected although a reader's snapshot refers to it (slatedb#604)",
            ("checkpoints/not_spared", "checkpoints/ssts_not_spared", "checkpoints/active_spared")),
    "Z13": ("a checkpoint expires during a replay, and is resurrected (slatedb PR#1657)",
            ("checkpoints/refresh_lists_again", "checkpoints/ended_is_renewed")),
    "Z14": ("a client requests a file that was listed and then deleted, forever (slatedb#1215)", ("missing_is_asked_again",)),
    "Z15": ("a checkpoint refers to a manifest that is collected meanwhile (slatedb#278)",
            ("checkpoints/source_before", "checkpoints/first_read_is_named")),
    "Z16": ("a client uses up its attempts without reading the winner's write (delta-rs#3066)", ("conflict_not_looked_at",)),
    "Z17": ("no grace period: a file's age is measured from the wrong moment (baerly-storage#79)", ("age_ignored",)),
    "Z18": ("comparing times of two clocks deletes half of the data (icechunk#2310)", DATA_FILES),
    "Z19": ("an epoch is checked without a retry, and writes are lost (SlateDB's page on the manifest)",
            ("manifest_epochs/fencing_swallowed", "manifest_epochs/unchecked_after_conflict")),
    "Z20": ("a collector hides a race with a snapshot (chroma#5153)", SNAPSHOTS),
}
