"""What all parts of a spec share: immutable, no unknown keys, sources beside figures."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Spec(BaseModel):
    """Base of every part of a spec: frozen, unknown keys refused, field docs from docstrings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


Name = Annotated[str, Field(min_length=1, max_length=120)]
Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]
CountOrZero = Annotated[int, Field(ge=0, le=10**9, strict=True)]
