"""Revisions of the schema, run from code by ``results.store.upgrade``."""
