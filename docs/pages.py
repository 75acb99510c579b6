"""``python -m docs.pages [--check]``: write the pages that are made from data, or compare them."""

import sys

from docs import (
    make_ascend,
    make_catalogue,
    make_codesign,
    make_engines,
    make_large_spaces,
    make_sampling,
    make_scaling,
    make_side_by_side,
    make_spec_reference,
)

MADE = (
    make_spec_reference,
    make_catalogue,
    make_ascend,
    make_codesign,
    make_engines,
    make_large_spaces,
    make_sampling,
    make_scaling,
    make_side_by_side,
)
"""Modules with a page and the text that belongs on it."""


def main() -> None:
    """Write every page; with ``--check`` name those that are stale and exit 1."""
    stale = []
    for module in MADE:
        text = module.text()
        if "--check" not in sys.argv[1:]:
            module.PAGE.write_text(text, encoding="utf-8")
        elif not module.PAGE.is_file() or module.PAGE.read_text(encoding="utf-8") != text:
            stale.append(module.PAGE.name)
    if stale:
        sys.exit(f"{', '.join(stale)} out of date: run python -m docs.pages")


if __name__ == "__main__":
    main()
