"""What there is to choose from: models, machines, workloads, cost models and constraints."""

from typing import Any

from specs.catalog import KINDS, entry, listing
from specs.errors import SpecError, nearest

Document = dict[str, Any]

SCHEMA = "planner/catalog/1"

_ALL = (*KINDS, "cost-models", "constraints")


def document(kind: str | None, name: str | None) -> Document:
    """Return the listing of one kind or of all, or one entry whole.

    Raises ``SpecError`` for an unknown kind or name, with the nearest known one.
    """
    if kind is None:
        return {"schema": SCHEMA, **{k: _listing(k) for k in _ALL}}
    if kind not in _ALL:
        raise SpecError.single("catalog", kind, "no such kind", nearest(kind, _ALL))
    if name is None:
        return {"schema": SCHEMA, kind: _listing(kind)}
    if kind in KINDS:
        return {"schema": SCHEMA, kind: [entry(kind, name)]}
    found = [item for item in _listing(kind) if item["name"] == name]
    if not found:
        known = [str(item["name"]) for item in _listing(kind)]
        raise SpecError.single(f"catalog {kind}", name, "no such entry", nearest(name, known))
    return {"schema": SCHEMA, kind: found}


def _listing(kind: str) -> list[Document]:
    if kind in KINDS:
        return listing(kind)
    if kind == "cost-models":
        return _cost_models()
    from constraints import CONSTRAINTS

    return [
        {"name": c.name, "title": c.title, "reads": list(c.reads), "unit": c.unit, "sources": []}
        for c in CONSTRAINTS
    ]


def _cost_models() -> list[Document]:
    from costmodels.base import installed_models, model_type

    return [
        {"name": name, "title": _first_line(model_type(name)), "sources": []}
        for name in installed_models()
    ]


def _first_line(kind: object) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]
