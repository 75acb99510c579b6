"""Architectures that can be read: one function for each family, found by the names of a config.

To add one, write a function from :class:`~specs.huggingface.fields.Fields` to :class:`Stack` in the
module of its family and give it the decorator :func:`architecture` with the names that a
``config.json`` may use: ``architectures`` entries and ``model_type``.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from specs.attention import Attention
from specs.errors import Fault, SpecError, shown
from specs.ffn import Ffn
from specs.huggingface.fields import Fields
from specs.model import Draft, LayerGroup


@dataclass(frozen=True)
class Stack:
    """What a configuration says of the language model.

    ``layers``  one group of one layer for each layer, from input to output
    ``hyper``   residual streams of hyper-connections
    ``notes``   what the reader should know, one sentence each
    ``more``    further fields of the model
    ``formats`` of what is kept of the context, where the reference implementation fixes them
    ``blocks``  modules of a layer that hold a class of tensor, where their names are unusual
    """

    layers: tuple[LayerGroup, ...]
    hidden: int
    vocab: int
    max_context: int
    draft: Draft | None = None
    hyper: int = 0
    notes: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    formats: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[tuple[str, str], ...] = ()


Reader = Callable[[Fields], Stack]


@dataclass(frozen=True)
class Architecture:
    """A family of architectures: the function that reads it and what its class defaults to."""

    name: str
    read: Reader
    tied: bool


_KNOWN: dict[str, Architecture] = {}
_FAMILIES = ("dense", "mixtures", "latent", "compressed", "hybrid", "pruned")
_LANGUAGE = ("text_config", "llm_config", "language_config")
_NEEDED = (
    "hidden_size",
    "num_hidden_layers",
    "vocab_size",
    "max_position_embeddings",
    "num_attention_heads",
    "intermediate_size",
)


def architecture(*names: str, tied: bool = False) -> Callable[[Reader], Reader]:
    """Register a function under the names that configurations use.

    ``tied``: whether the output projection is the embedding where a configuration does not say.
    """

    def register(read: Reader) -> Reader:
        for name in names:
            assert name not in _KNOWN, name
            _KNOWN[name] = Architecture(names[0], read, tied)
        return read

    return register


def known() -> dict[str, Architecture]:
    """Return all architectures by every name they have."""
    for module in _FAMILIES:
        import_module(f"specs.huggingface.{module}")
    return _KNOWN


def language_model(top: Fields) -> Fields:
    """Return the fields of the language model, which a multimodal model keeps apart."""
    return top.section(*_LANGUAGE) or top


def names_of(top: Fields, text: Fields) -> list[str]:
    """Return the names that may say what the language model is, most telling first."""
    names: list[str] = []
    for fields in (top, text):
        names += fields.words("architectures") or []
        names.append(fields.word("model_type"))
    return [name for name in dict.fromkeys(names) if name]


def find(top: Fields, text: Fields) -> Architecture:
    """Return the architecture of a configuration.

    Raises ``SpecError`` for an unknown one, with the nearest known and the fields it would need.
    """
    names = names_of(top, text)
    top.check()
    for name in names:
        if name in known():
            return known()[name]
    raise _unknown(names, text)


def _unknown(names: Sequence[str], text: Fields) -> SpecError:
    """Build the error: the nearest known architecture, and which fields are there for it."""
    close = next((near for name in names if (near := _nearest(name))), "")
    if close:
        probe = Fields(text.values, text.path)
        # It may fail on what is missing; what it asked for is noted all the same.
        with suppress(ValueError, SpecError, ZeroDivisionError):
            known()[close].read(probe)
        asked = dict(probe.asked)
    else:
        asked = {name: text.has(name) for name in _NEEDED}
    lacking = [path for path, found in asked.items() if not found]
    looked = f"It looks for {', '.join(asked)}; " + (
        f"missing are {', '.join(lacking)}" if lacking else "all of them are there"
    )
    if not close:
        looked = looked.replace("It looks for", "Any model needs at least", 1)
    elif not lacking:
        looked += f": if its layers are those of {close!r}, write that as model_type"
    message = "this architecture is not known" if names else "missing, and so is model_type"
    hint = f"The nearest known one is {close!r}. {looked}" if close else looked
    return SpecError([Fault("architectures", shown(names[0]) if names else "", message, hint)])


def _nearest(name: str) -> str:
    """Return the name of a known architecture that is close to ``name``, or nothing."""
    found = get_close_matches(name[:80], known(), n=1, cutoff=0.6)
    return found[0] if found else ""


def group(attention: Attention, ffn: Ffn, **more: Any) -> LayerGroup:
    """Return one layer; ``more`` are further fields of the group."""
    return LayerGroup(count=1, attention=attention, ffn=ffn, **more)
