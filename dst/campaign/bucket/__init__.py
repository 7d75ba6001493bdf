"""Keep a campaign in a bucket of an object store, for workers that share no file system with the driver.

    PREFIX/campaign/ID.campaign             the journal: files of a sequence, in the order of their ids (journal.py)
    PREFIX/rows/EPOCH/LOW-HIGH-NEW.parquet  parts: the rows of the seeds from LOW up to before HIGH, by a worker of this epoch

Safety: rows count only if the journal names their part. A new driver begins an epoch in the journal, and nothing that drivers
of earlier epochs add later counts.
"""
