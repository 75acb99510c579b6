"""Work in the process that asks."""

from collections.abc import Callable, Iterator, Sequence

from searches.executors.base import R, S, T


class LocalExecutor:
    """The process that asks: one task after the other."""

    name = "local"
    workers = 1

    def run(
        self, function: Callable[[S, T], R], shared: S, items: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Call ``function`` for one item after the other."""
        for position, item in enumerate(items):
            yield position, function(shared, item)
