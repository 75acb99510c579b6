"""Answers that last: studies in SQLite or PostgreSQL, tables as Parquet beside it.

``store``     the front: open a store, find or begin a study
``study``     what a search keeps in it, chunk by chunk, and the answer
``schema``    the tables; ``migrations`` its revisions, ``migrate`` what runs them
``database``  connections and transactions; ``faults`` what is said when they fail
``tables``    the Parquet files; ``codec`` what is in them
``lease``     who works on what
"""

from results.store.place import default_url
from results.store.store import Store
from results.store.study import Study

__all__ = ["Store", "Study", "default_url"]
