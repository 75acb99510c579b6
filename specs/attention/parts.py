"""What several kinds of attention share."""

from typing import Literal

from specs.base import Count, Spec
from specs.tensors import Cut, Matrix, Stream

Phase = Literal["decode", "prefill"]


def output_matrix(rows: int, hidden: int, units: int) -> Matrix:
    """Matrix that joins the heads, or groups of them, into a hidden vector."""
    cut = Cut("rows", "heads", units)
    return Matrix("attention", rows, hidden, cut, projects_output=True)


class Indexer(Spec):
    """Small attention that scores the context and chooses what the large one reads."""

    heads: Count
    """Heads that score."""
    dim: Count
    """Width of one head and of one key."""
    top_k: Count
    """Entries that are chosen for each token."""
    scans: Count | None = None
    """Most entries that are scored; all if not given."""

    def stream(self, ratio: int, *, owned: bool) -> Stream:
        """Keys that the indexer keeps and scores."""
        return Stream(
            "index",
            width=self.dim,
            query_heads=self.heads,
            flops=2 * self.dim,
            ratio=ratio,
            seen=self.scans,
            owned=owned,
            dealt=False,
        )
