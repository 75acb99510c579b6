"""Kill a running study at random points, go on with it, and compare with one left in peace.

    python -m tests.store.killed URL OTHER_URL KILLS SEED

Studies run in forked children, so that hardly any time passes before they work. Prints how many
were killed, and at how many chunks; any difference is an error.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from planner.studies import rank
from results.store import Store, Study, schema
from results.store.removal import delete
from searches import exhaustive
from specs.fingerprint import code_fingerprint
from specs.load import load_problem
from tests.store.support import ROOT, opened

# All children answer for the code that was there when this began.
code_fingerprint()
exhaustive.CHUNK_ROWS = 2
PROBLEM = load_problem(ROOT / "examples/qwen3-235b-a22b-8k-hgx-h100.yaml")


def forked(url: str, log: Path) -> int:
    """Rank the problem in a child, which logs each chunk once it is kept; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    store_chunk = Study.store

    def logged(study: Study, index: int, digest: Any) -> None:
        store_chunk(study, index, digest)
        with log.open("a") as out:
            out.write(f"{index}\n")

    Study.store = logged  # type: ignore[method-assign]
    code = 1
    try:
        with opened(url) as store:
            rank(PROBLEM, store=store)
        code = 0
    finally:
        os._exit(code)


def ended(pid: int) -> bool:
    """Wait for a child; whether it ended by itself, which must be well."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def chunks(store: Store) -> dict[int, bytes]:
    with store.database.reading() as connection:
        rows = connection.execute(sa.select(schema.chunk.c.position, schema.chunk.c.content))
        return {row.position: row.content for row in rows}


def kept(store: Store) -> dict[str, Any]:
    """Everything about the only study that does not tell when it ran."""
    columns = ("id", "state", "owner", "result", "table_file", "table_sha256", "versions")
    with store.database.reading() as connection:
        study = connection.execute(sa.select(*(schema.study.c[c] for c in columns))).one()
        plans = connection.execute(sa.select(schema.plan).order_by("rank")).all()
    table = (store.tables.folder / study.table_file).read_bytes() if study.table_file else b""
    said = json.dumps([list(study), [list(plan) for plan in plans]])
    return {"state": study.state, "id": study.id, "said": said, "table": table}


def torment(url: str, peace: dict[str, Any], patience: float, draw: random.Random) -> Counter[str]:
    """Kill a study until it is done all the same; return how often, with how many chunks kept."""
    seen: dict[int, bytes] = {}
    kills: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        while True:
            pid = forked(url, log)
            # Ever longer, so that it is done at last.
            time.sleep(draw.uniform(0, patience * (1 + kills.total() / 4)))
            os.kill(pid, signal.SIGKILL)
            if ended(pid):
                break
            with opened(url) as store:
                now = chunks(store)
                with store.database.reading() as connection:
                    state = connection.execute(sa.select(schema.study.c.state)).scalar()
            kills["done" if state == "done" else f"{len(now)} chunks"] += 1
            if state == "done":
                break
            assert seen.items() <= now.items(), "a finished chunk was lost or changed"
            seen = now
        computed = Counter(log.read_text().split())
    assert max(computed.values(), default=0) <= 1, f"computed again: {computed}"
    with opened(url) as store:
        found = kept(store)
        assert found == peace, "the answer is another one"
        assert not chunks(store)
        assert [f.name for f in store.tables.files()] == [json.loads(found["said"])[0][4]]
        delete(store, found["id"])
    return kills


def main(url: str, other: str, most: str, seed: str) -> None:
    begun = time.monotonic()
    assert ended(forked(other, Path(os.devnull)))
    patience = (time.monotonic() - begun) / 2
    with opened(other) as store:
        peace = kept(store)
    assert peace["state"] == "done"
    draw, kills = random.Random(int(seed)), Counter[str]()
    while kills.total() < int(most):
        kills += torment(url, peace, patience, draw)
    print(json.dumps(kills))


if __name__ == "__main__":
    main(*sys.argv[1:])
