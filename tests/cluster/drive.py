"""The process that asks: a study with a store, whose chunks are traced. It may be killed.

``python -m tests.cluster.drive EXECUTOR STORE FOLDER ROWS PAUSE SPEC [PATH=VALUE …]``
"""

import sys
from pathlib import Path

from planner import studies
from results.store import Store
from searches import exhaustive
from searches.executors import Executor, executor
from tests.cluster.studies import answer
from tests.cluster.work import Tracing


def main(name: str, store: str, folder: str, rows: str, pause: str, spec: str, *sets: str) -> None:
    """Rank, and write the answer into the folder."""

    def traced(name: str) -> Executor:
        return Tracing(executor(name), Path(folder), float(pause))

    studies.executor = traced
    exhaustive.CHUNK_ROWS = int(rows)
    ranking = studies.rank(spec, sets, executor_name=name, store=Store.open(store))
    document, digest = answer(ranking)
    Path(folder, "document").write_text(document)
    Path(folder, "digest").write_bytes(digest)


if __name__ == "__main__":
    main(*sys.argv[1:])
