"""Arguments and options that several commands take."""

from typing import Annotated

import typer

NONE_GIVEN: list[str] = []
"""Default of options that may be repeated. Typer reads it, and nobody changes it."""

Spec = Annotated[str, typer.Argument(help="Spec file (YAML or JSON).", metavar="SPEC")]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="PATH=VALUE", help="Change a leaf of the spec; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
CostModelName = Annotated[
    str | None, typer.Option("--cost-model", metavar="NAME", help="Cost model to use.")
]
ExecutorName = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="WHERE",
        help="Where to compute: local, processes[:N] or ray[:ADDRESS].",
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="PLANNER_STORE",
        help="Where studies are kept: a file, a database URL, or none; a file in your data folder "
        "if not given.",
    ),
]
