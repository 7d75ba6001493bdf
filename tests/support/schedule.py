"""The order of the suite, and what its workers share.

A file runs on one worker, so that its fixtures start once. The files below take longest and come first: what is left at the
end is small, and all workers are busy until then. The files in ONE_JAVA run on one worker, one after another: pyspark keeps
its Java process, which takes ten seconds of CPU to start.
"""

from typing import Any

from xdist.scheduler import LoadFileScheduling

ONE_JAVA = ("tests/dst/test_campaign.py", "tests/dst/test_bulk.py", "tests/highwater/test_campaign_sql.py",
            "tests/dst/test_campaign_triage.py", "tests/model/test_explore_disk.py")
FIRST = (*ONE_JAVA, "tests/highwater/test_cli.py", "tests/model/test_proof.py",
         "tests/gate/test_gate.py", "tests/traces/test_edited.py", "tests/specs/test_rows.py", "tests/model/test_engines.py",
         "tests/highwater/test_store_probe.py", "tests/traces/test_follow.py", "tests/traces/test_store.py",
         "tests/highwater/test_pages.py", "tests/impl/stores/test_stores_s3.py", "tests/admin/test_admin.py",
         "tests/highwater/test_installed.py", "tests/highwater/test_tutorial.py", "tests/highwater/test_new.py",
         "tests/clients/test_client.py")


def place(nodeid: str) -> int:
    file = nodeid.partition("::")[0]
    return FIRST.index(file) if file in FIRST else len(FIRST)


class LongestFirst(LoadFileScheduling):
    """xdist's schedule by files, in the order of collection, with the files of ONE_JAVA as one."""

    def __init__(self, config: Any, log: Any = None) -> None:
        config.option.loadscopereorder = False  # xdist would begin with the files of most tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "Java" if file in ONE_JAVA else file
