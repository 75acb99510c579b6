"""The store that a command keeps its studies in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from specs.errors import SpecError

if TYPE_CHECKING:
    from results.store import Store

NONE = "none"
"""Word for: keep nothing."""


@contextmanager
def kept_in(url: str | None) -> Iterator["Store | None"]:
    """Yield the store at ``url``, the default one if that is ``None``, none for ``"none"``.

    Nobody has asked for the default store by name, so a place that cannot be written there is a
    note and no error.
    """
    if url == NONE:
        yield None
        return
    from results.store import Store, default_url

    try:
        store = Store.open(url or default_url())
    except SpecError as error:
        if url:
            raise
        typer.echo(f"note: studies are not kept: {error}", err=True)
        yield None
        return
    try:
        yield store
    finally:
        store.close()
