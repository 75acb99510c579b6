"""Models from the files that are published with them: ``config.json`` and what lies beside it.

``import_model`` reads a folder and returns a :class:`~specs.model.ModelSpec`, with notes on what
the files leave open and a comparison with the checkpoint where its index or tensors are there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specs import catalog, faults
from specs.errors import Fault, SpecError, shown
from specs.ffn import MoeFfn
from specs.formats import BITS, Formats
from specs.huggingface import architectures, quantisation, vision
from specs.huggingface.architectures import Architecture, Stack
from specs.huggingface.checkpoint import Check, check
from specs.huggingface.fields import Fields
from specs.huggingface.reading import CONFIG, INDEX, QUANTISATION, Published, read
from specs.huggingface.writing import grouped, to_yaml
from specs.model import ModelSpec

__all__ = ["Check", "Imported", "import_model", "to_yaml"]


@dataclass(frozen=True)
class Imported:
    """A model read from its published files.

    ``notes``     what the files leave open, or the spec does not say
    ``warnings``  what should be looked into before the spec is used
    ``check``     the comparison with the checkpoint, where there is one
    """

    model: ModelSpec
    architecture: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    check: Check | None = None

    def yaml(self) -> str:
        """Return the text of a catalogue entry."""
        return to_yaml(self.model, (*self.warnings, *self.notes))


def import_model(path: str | Path, name: str | None = None) -> Imported:
    """Read the model whose ``config.json`` is ``path``, or lies in that folder.

    Raises ``SpecError`` for files that cannot be read, an architecture that is not known, and
    fields that are missing or wrong, with the file as its source.
    """
    published = read(Path(path))
    source = str(published.config_file)
    if name is not None and not catalog.NAME.fullmatch(name):
        raise SpecError.single(
            "--name", name, "expected small letters, digits, '.', '_' and '-'", "e.g. qwen3-8b"
        )
    try:
        return _imported(published, name)
    except SpecError as error:
        raise SpecError(error.faults, source=error.source or source) from None


def _imported(published: Published, name: str | None) -> Imported:
    top = Fields(published.config)
    text = architectures.language_model(top)
    found = architectures.find(top, text)
    stack = _stack(found, text)
    rules = quantisation.rules_of(top, text, published.quantisation)
    dtype = quantisation.base_dtype(top, text)
    top.check()
    formats, notes = quantisation.formats(stack, rules, dtype)
    tied = _tied(found, top, text)
    label = _label(published.config_file)
    modules, left_out = _modules(top, stack.hidden, formats)
    top.check()
    raw: dict[str, Any] = {
        "name": name or _slug(label) or _slug(found.name) or "model",
        "title": _title(label, stack, formats),
        "sources": _sources(published, label, found.name),
        "hidden": stack.hidden,
        "vocab": stack.vocab,
        "tied_embeddings": tied,
        "max_context": stack.max_context,
        "layers": grouped(stack.layers),
        "hyper_connections": stack.hyper,
        "draft": stack.draft,
        "modules": modules,
        "formats": formats,
        **stack.more,
    }
    model = _checked(raw)
    compared = check(published, model)
    if compared and compared.unit == "numbers" and not compared.with_draft:
        model = model.model_copy(update={"parameters": compared.checkpoint})
    warnings = (f"{compared}",) if compared and compared.differs else ()
    if compared and not compared.differs:
        notes.append(str(compared))
    if compared is None:
        notes.append("No index or tensors lie beside the configuration to check the count with.")
    notes = [*stack.notes, *left_out, *notes]
    return Imported(model, found.name, tuple(notes), warnings, compared)


def _stack(found: Architecture, text: Fields) -> Stack:
    """Read the layers; what is missing or wrong goes before what follows from it."""
    try:
        stack = found.read(text)
    except ValidationError as error:
        text.check()
        raise SpecError(_broken_rules(error)) from None
    except (ZeroDivisionError, OverflowError):
        text.check()
        raise
    text.check()
    return stack


def _broken_rules(error: ValidationError) -> Iterable[Fault]:
    """Return the rules that figures break together; each names the fields of the spec."""
    for detail in error.errors(include_url=False, include_context=False):
        path = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        value = detail.get("input")
        silent = isinstance(value, dict | list)
        yield Fault(path, "" if silent else shown(value), message)


def _checked(raw: dict[str, Any]) -> ModelSpec:
    try:
        return ModelSpec.model_validate(raw)
    except ValidationError as error:
        raise faults.spec_error(error, raw, ModelSpec) from None


def _tied(found: Architecture, top: Fields, text: Fields) -> bool:
    """Tell whether the embedding is the head: the outer field goes before the inner one."""
    name = "tie_word_embeddings"
    return top.switch(name, default=text.switch(name, default=found.tied))


def _modules(top: Fields, hidden: int, formats: Formats) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what lies beside the stack, and notes on what is left out."""
    tower, note = vision.count(top, hidden)
    notes = [note] if note else []
    if isinstance(top.values.get("audio_config"), dict):
        notes.append("The audio tower is left out.")
    if tower is None:
        return [], notes
    width = BITS[formats.norms.dtype] // 8
    parts = (("vision", tower.vision), ("projector", tower.projector))
    return [
        {"name": name, "bytes": count * width, "parameters": count}
        for name, count in parts
        if count
    ], notes


def _label(config: Path) -> str:
    """Return the name of the model, as its folder has it."""
    folder = config.resolve().parent
    if folder.parent.name == "snapshots":  # a cache names folders by revision
        folder = folder.parent.parent
    return "".join(c for c in folder.name.split("--")[-1] if c.isprintable())[:80]


def _slug(label: str) -> str:
    found = re.sub(r"[^a-z0-9._-]+", "-", label.lower()).strip("._-")
    return found if catalog.NAME.fullmatch(found) else ""


def _title(label: str, stack: Stack, formats: Formats) -> str:
    mixed = any(isinstance(layer.ffn, MoeFfn) for layer in stack.layers)
    kind = "mixture of experts" if mixed else "dense"
    weights = formats.experts if mixed else formats.ffn
    return f"{label}, {kind}, {weights.dtype.upper()}" + (" experts" if mixed else "")


def _sources(published: Published, label: str, architecture: str) -> list[str]:
    found = [f"Published configuration of {label} ({published.config_file.name}, {architecture})"]
    if published.config_file.name == CONFIG and published.quantisation is not None:
        found.append(f"Published quantisation of {label} ({QUANTISATION})")
    if published.tensors:
        found.append(f"Published checkpoint of {label}: {len(published.files)} safetensors headers")
    elif published.index is not None:
        found.append(f"Published checkpoint of {label} ({INDEX})")
    return found
