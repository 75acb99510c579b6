"""The text of ``catalogue.md``: what the catalogue holds, with sizes worked out.

It changes with the catalogue (``python -m docs.pages``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template

from costmodels import sharding
from costmodels.plans import PlanTable
from specs import catalog, census
from specs.assumptions import Assumptions
from specs.fabric import Level, Mesh, Switch, Torus
from specs.ffn import MoeFfn
from specs.formats import Formats, StoredFormat
from specs.hardware import HardwareSpec
from specs.huggingface.sizes import checkpoint_bytes
from specs.memory import MemoryTier
from specs.model import ModelSpec

PAGE = Path(__file__).with_name("catalogue.md")

TEXT = """% Written by docs/make_catalogue.py from specs/catalog.

# Catalogue

$COUNT models, with machines and loads to try them on. A spec names an entry, `model: qwen3-32b`, or
changes one, `model: {base: qwen3-32b, overrides: {max_context: 64K}}`. An entry is a file in
`specs/catalog/`, and every one lists its sources; `planner catalog models qwen3-32b` shows it.

## Models

$MODELS
- **numbers**: weights of the stack, embedding and head, counted from the shapes; without the module
  that drafts, vision towers and Engram tables.
- **a token**: those that multiply one token: chosen and shared experts, everything that is no
  expert, and the head; of the embedding one row.
- **weights**: bytes in the formats of the checkpoint, modules and draft included, a second copy of
  tied embeddings not.
- **context**: the longest, in tokens.
- **each token**: bytes that one more token of a long context adds to a session, before it is split
  or copied over cards.
- **session**: bytes that a session holds besides: full windows, recurrent states.
- **formats**: those of large matrices, the most common one of the numbers first.

A model is chosen for its shapes, and others share them. DeepSeek-V3.1 is as `deepseek-v3`; Kimi
K2.6 and K2.7 as `kimi-k2.5`; GLM-5.1 as `glm-5`, GLM-5.3 as `glm-5.2`; MiniMax-M2, M2.1 and M2.7 as
`minimax-m2.5` but for the longest context; Qwen3.8-27B as `qwen3.6-27b`.

### What the entries simplify

- **One format for each class of tensor.** Where a checkpoint treats some matrices of a class
  otherwise, the class has the format of most of its numbers.
- **Gemma**: two further norms a layer are not counted. In full layers of Gemma 4 keys and values
  share one projection, which counts twice: 0.05 and 0.35 % of the numbers.
- **Llama 4**: chunked attention is a window of one chunk, the most that a token sees.
- **MiniMax-M3**: an indexer chooses blocks of 128 tokens; here it chooses as many single tokens.
- **Step-3.7-Flash**: the gate of one number a head is not counted.
- **Drafting**: MiMo-V2-Flash is without its draft layers, which its configuration does not state.
- **Embedding and head of a draft module** are those of the model, even where a checkpoint holds
  them a second time.

Other models: [](importing.md).

## Machines

$MACHINES
- **memories**: what one card has of each, and the most that it reads; what several cards share is
  divided among them.
- **fabric**: cards of a domain of each level, from the inside out, how they are joined, and what
  one card sends over all its links, per direction.
- **together**: most power of a server and how many a rack holds; cards that fail together besides
  those of a server.

What is missing here no source states, and a plan that needs it is refused with the name of the
figure; a spec may set it, `hardware: {base: mi300x-8, overrides: {levels[0].latency: 2 us}}`.

## Workloads

$WORKLOADS"""

ONE = PlanTable.from_columns({"tp": [1]})
ASSUMED = Assumptions()

LONG = 2**20
"""Tokens beyond which every window is full, and a multiple of every ratio of compression."""

LARGE = ("attention", "ffn", "experts", "shared_experts")
"""Classes of tensor whose formats are named."""


@dataclass(frozen=True)
class Sized:
    """A model with what follows from its shapes."""

    model: ModelSpec

    @cached_property
    def counts(self) -> dict[str, int]:
        """Numbers by class of tensor, tables of n-grams and modules excepted."""
        counts = census.parameters(self.model)
        counts.pop("modules", 0)
        for group in self.model.groups:
            if group.engram:
                row = group.engram.inputs // group.engram.lookups
                counts["engram"] -= group.count * group.engram.rows * row
        return counts

    @property
    def numbers(self) -> int:
        """Numbers of the language model."""
        return sum(self.counts.values())

    @property
    def active(self) -> int:
        """Numbers that multiply one token."""
        resting = 0
        for group in self.model.groups:
            if isinstance(group.ffn, MoeFfn):
                one = sum(m.numbers for m in group.ffn.expert(self.model.hidden))
                one += group.ffn.expert_vectors(self.model.hidden)
                resting += group.count * (group.ffn.experts - group.ffn.top_k) * one
        embedding = 0 if self.model.tied_embeddings else self.counts["embedding"]
        return self.numbers - resting - embedding

    def held(self, tokens: int) -> float:
        """Bytes that a session of so many tokens keeps."""
        return sum(
            count * float(sharding.session_bytes(self.model, kind, ONE, tokens, ASSUMED)[0])
            for count, kind in zip(self.model.kind_counts, self.model.kinds, strict=True)
        )

    @property
    def each_token(self) -> float:
        """Bytes of one more token of a long context."""
        return (self.held(2 * LONG) - self.held(LONG)) / LONG

    @property
    def session(self) -> float:
        """Bytes of a session that do not grow with a long context."""
        return self.held(LONG) - LONG * self.each_token

    @property
    def weights(self) -> float:
        """Bytes of the checkpoint."""
        return sum(checkpoint_bytes(self.model, draft=True).values())

    @property
    def formats(self) -> str:
        """Formats of large matrices, that of most numbers first."""
        numbers: dict[str, int] = {}
        for name in LARGE:
            if name in self.counts:
                dtype = _format(self.model.formats, name)
                numbers[dtype] = numbers.get(dtype, 0) + self.counts[name]
        return ", ".join(sorted(numbers, key=lambda dtype: -numbers[dtype]))

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return (
            f"`{self.model.name}`",
            self.model.title,
            str(self.model.layer_count),
            _short(self.numbers / 1e9) + " B",
            _short(self.active / 1e9) + " B",
            _short(self.weights / 1e9) + " GB",
            f"{self.model.max_context:,}",
            _short(self.each_token / 1e3) + " kB",
            _short(self.session / 1e6) + " MB" if self.session > 0.5 else "",
            self.formats,
        )


def _format(formats: Formats, name: str) -> str:
    stored: StoredFormat = getattr(formats, name)
    return stored.dtype.upper()


def _short(value: float) -> str:
    """Write three digits, without a tail of noughts; whole numbers from a thousand on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Write a table in Markdown; ``numbers`` columns after the second are to the right."""
    marks = ["---:" if 2 <= i < 2 + numbers else "---" for i in range(len(head))]
    written = [" | ".join(cells) for cells in (head, marks, *lines)]
    return "\n".join(f"| {line} |" for line in written) + "\n"


def models() -> str:
    """Write the table of models."""
    head = ["name", "title", "layers", "numbers", "a token", "weights"]
    head += ["context", "each token", "session", "formats"]
    names = catalog.names("models")
    found = [Sized(ModelSpec.model_validate(catalog.entry("models", name))) for name in names]
    return table(head, [one.cells() for one in found], numbers=7)


def _rate(value: float | None) -> str:
    """Write bytes per second with the largest prefix that leaves a digit before the point."""
    if value is None:
        return "rate not stated"
    size, unit = next(
        ((size, unit) for size, unit in ((1e15, "PB/s"), (1e12, "TB/s")) if value >= size),
        (1e9, "GB/s"),
    )
    return f"{_short(value / size)} {unit}"


def _memory(name: str, tier: MemoryTier) -> str:
    """Write one memory of a card."""
    size, unit = (1e9, "GB") if tier.share >= 1e9 else (1e6, "MB")
    return f"{name} {_short(tier.share / size)} {unit} at {_rate(tier.rate)}"


def _level(level: Level) -> str:
    """Write one level of a fabric."""
    topology = level.topology
    joined = topology.kind.replace("_", " ")
    if isinstance(topology, Torus | Mesh):
        joined += " " + "x".join(map(str, topology.dims))
    if isinstance(topology, Switch) and topology.reduces:
        joined += " that reduces"
    sizes = "/".join(map(str, level.sizes or (level.size,)))
    missing = ", no start-up time stated" if level.latency is None else ""
    return f"{level.name} {sizes}, {joined}, {_rate(level.bandwidth and level.beta)}{missing}"


def _together(machine: HardwareSpec) -> str:
    """Write what a server draws, what a rack holds, and what fails together."""
    power, rack = machine.server.power, machine.facility.rack
    said = [f"{_short(power / 1e3)} kW"] if power else []
    said += [f"{rack.servers} a rack"] if rack.servers else []
    said += [f"air up to {_short(rack.air / 1e3)} kW"] if rack.air else []
    said += [f"{domain.name} of {domain.cards}" for domain in machine.failure_domains]
    return ", ".join(said)


def machines() -> str:
    """Write the table of machines."""
    lines = []
    for name in catalog.names("hardware"):
        machine = HardwareSpec.model_validate(catalog.entry("hardware", name))
        cells = (
            f"`{name}`",
            machine.title,
            str(machine.cards),
            "; ".join(_memory(kind, tier) for kind, tier in machine.memory.tiers.items()),
            "; ".join(_level(level) for level in machine.levels if level.size > 1),
            _together(machine),
        )
        lines.append(cells)
    return table(("name", "title", "cards", "memories", "fabric", "together"), lines, numbers=1)


def workloads() -> str:
    """Write the table of workloads."""
    rows = catalog.listing("workloads")
    return table(("name", "title"), [(f"`{row['name']}`", row["title"]) for row in rows])


def text() -> str:
    """Return the whole page."""
    return Template(TEXT).substitute(
        COUNT=len(catalog.names("models")),
        MODELS=models(),
        MACHINES=machines(),
        WORKLOADS=workloads(),
    )
