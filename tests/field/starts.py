"""The start-up logs as an engine sees them: its version and settings, and the card's memory.

What a log does not state keeps the engine's default; a length that it does not state is the
model's longest, as the engine takes it. Nothing here comes from what the engine then reported, but
the tokens of a pass of M21, whose command is not at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import planner
from tests.field.reports import GIB, MOE, REPORTS
from tests.field.support import CASES, Raw, feasible, machine, quantity


@dataclass(frozen=True)
class Start:
    """One start of an engine.

    ``reported``  GiB that the driver reports; those of the log, or of the same card elsewhere
    ``link``      GB/s of a card's innermost links, per direction
    ``options``   settings of the log beside its share and longest session
    ``space``     what the plan has in place of that of the report; ``cards`` likewise
    ``server``    cards of one server; all of them if not given
    """

    case: str
    engine: str
    version: str | None
    card: str
    reported: float
    link: float = 450.0
    options: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    cards: int = 0
    server: int = 0

    def spec(self, **options: Any) -> Raw:
        """Return the spec of one session; ``options`` in place of those of the log."""
        report = REPORTS[self.case]
        settings = CASES[self.case]["settings"]
        model = report.model
        share = settings.get("gpu_memory_utilization", settings.get("mem_fraction_static"))
        stated: Raw = {"max_model_len": settings.get("max_model_len", model["max_context"])}
        stated |= {} if share is None or isinstance(share, list) else {"share": share}
        hardware = machine(self.cards or report.cards)
        hardware["server"]["cards"] = self.server or hardware["cards"]
        hardware["card"]["name"] = self.card
        hardware["memory"]["hbm"]["reported"] = self.reported * GIB
        hardware["levels"][0]["bandwidth"] = f"{self.link} GB/s"
        space = {"tp": [1], "pp": [1], "batch": [1], "replicas": [1]}
        return {
            "model": model,
            "hardware": hardware,
            "engine": {
                "name": self.engine,
                "version": self.version,
                "options": {**stated, **self.options, **options},
            },
            "workload": {
                "kind": "steady",
                "classes": [{"name": "one", "context": 500, "generate": 1}],
            },
            "space": {**space, **report.space, **self.space},
        }

    def feasible(self, **options: Any) -> bool:
        """Whether the engine starts and serves one session."""
        return feasible(self.spec(**options))

    def explained(self, **options: Any) -> Raw:
        """Everything about the plan, whether it starts or not."""
        return _explained(self, tuple(options.items()))

    def memory(self, **options: Any) -> Raw:
        """Memory of the fullest card, as the JSON of a plan gives it."""
        found: Raw = self.explained(**options)["memory"]
        return found

    def room_gib(self, **options: Any) -> float:
        """GiB that are left for KV on the fullest card."""
        return float(self.memory(**options)["kv_room_bytes"]) / GIB

    def tokens(self) -> float:
        """Tokens that the KV pool holds."""
        return float(self.memory()["kv_tokens"])

    def weights_gib(self) -> float:
        """GiB of weights on the fullest card."""
        return float(self.memory()["breakdown"]["weights"]) / GIB

    def sessions_in(self, gib: float) -> float:
        """Sessions of the longest admitted length that so many GiB hold."""
        memory = self.memory()
        return float(memory["max_concurrency"]) * gib * GIB / float(memory["kv_room_bytes"])

    def __hash__(self) -> int:
        return id(self)


@cache
def _explained(start: Start, options: tuple[tuple[str, Any], ...]) -> Raw:
    raw = start.spec(**dict(options))
    others = ("precision", "kv_dtype")
    plan = ",".join(f"{axis}={v[0]}" for axis, v in raw["space"].items() if axis not in others)
    found: Raw = planner.explain(raw, plan)
    return found


H100 = ("H100", 79.22)
L40S = ("L40S", 44.42)
RTX_3090 = ("GeForce RTX 3090", 23.58)
ASCEND_910B = ("Ascend 910B", 60.97)
GPT_OSS_TOKENS = {"max_batched_tokens": 1024}

STARTS = {
    start.case: start
    for start in (
        Start("M01", "vllm", "0.6.3", *RTX_3090),
        Start("M02", "vllm", "0.6.3", *RTX_3090),
        # 0.98 of it are 23.08 GiB, as the report says.
        Start("M03", "vllm", "0.7.2", "GeForce RTX 4090", 23.55, link=32),
        Start("M05", "vllm", "0.6.4", *H100),
        Start("M06", "vllm", "0.6.4", *H100),
        Start("M11", "sglang", None, *H100),
        Start("M12", "vllm", "0.7.2", "H20-3e", 139.72),
        Start("M13", "vllm", "0.10", *H100),
        Start("M14", "vllm", "0.11", *H100, options=GPT_OSS_TOKENS),
        Start("M15", "vllm", "0.14.1", *H100),
        Start("M17", "vllm", "0.8.5", "H20", 95.0, cards=4, space={"tp": [4], "ep": [1]}),
        Start("M19", "vllm", "0.8.3", "H100 NVL", 93.02),
        # The command starts the engine from Python, where its default is 16384 on such cards.
        Start("M20", "vllm", "0.22", "GH200", 94.5, options={"max_batched_tokens": 16384}),
        # 4,227 and 2,129 pages of partial entries (vllm PR 52495) are those of so many tokens.
        Start(
            "M21",
            "vllm",
            "0.26",
            "RTX PRO 5000",
            71.5,
            link=32,
            options={"max_batched_tokens": 8448},
        ),
        # Blocks of states had block_size rows in the first version; a ring of 32 came later.
        Start(
            "M24",
            "vllm-ascend",
            None,
            *ASCEND_910B,
            link=196,
            server=8,
            options={
                "max_batched_tokens": 4096,
                "max_sequences": 32,
                "compressed": {
                    "block": 128,
                    "counts": "entries",
                    "window_block": 128,
                    "state_page": "512 KiB",
                    "multiple": 1,
                },
            },
        ),
        Start("M25", "vllm", None, *RTX_3090, link=32, options={"max_batched_tokens": 8192}),
        Start(
            "M26",
            "vllm",
            "0.24",
            "GeForce RTX 5090",
            31.37,
            options={"max_batched_tokens": 8192, "max_sequences": 1},
        ),
        Start(
            "M27",
            "vllm",
            None,
            "GeForce RTX 5090 Laptop",
            23.46,
            options={"max_batched_tokens": 2048, "max_sequences": 1},
        ),
        Start("M33", "vllm", "0.7.2", "GeForce RTX 4060", 8.0),
        # The log lists graphs apart from what it subtracts, as before 0.21.
        Start("M35", "vllm", "0.11", "16 GB", 15.99),
        Start("M36", "vllm", "0.28", "46 GB", 44.42),
        Start("M37", "vllm", "0.11", *L40S),
        Start("M38", "vllm", "0.10", *H100),
        Start("M39", "vllm", "0.11", "RTX PRO 6000", 94.97, options={"max_sequences": 4}),
        Start("M40", "vllm", "0.10", *L40S, link=32),
        Start("M42", "vllm", "0.10", "A100 SXM 40GB", 39.39),
        Start("M46", "vllm-ascend", "0.11", *ASCEND_910B),
        Start("F20", "vllm-ascend", "0.14", *ASCEND_910B),
    )
}
"""Every log whose card is known, by its case."""

EIGHT = {
    "M17": Start("M17", "vllm", "0.8.5", "H20", 95.0, cards=8, space=MOE | {"tp": [8]}),
    "F20": Start("F20", "vllm-ascend", "0.14", *ASCEND_910B, cards=8, space={"tp": [8]}),
    "M40": Start("M40", "vllm", "0.10", *L40S, link=32, space={"tp": [8], "attention_dp": [1]}),
}
"""The same with everything dealt over eight cards."""

_TOKENS = {"M03": 81536, "M11": 367404, "M25": 302921, "M27": 150745}
"""Tokens of the pool that a log states in its text."""

_AVAILABLE = ("M05", "M06", "M12", "M14")
"""Logs that state the pool in GiB alone."""

_TOLD = {"M20": 5.44}
"""GiB of the pool that a log states in its text."""

CAPACITY: dict[str, tuple[float, str]] = {
    **{case: (float(tokens), "tokens") for case, tokens in _TOKENS.items()},
    **{case: (quantity(case, "available_kv_gib")["expected"], "GiB") for case in _AVAILABLE},
    **{case: (gib, "GiB") for case, gib in _TOLD.items()},
    **{
        case: (float(quantity(case, "kv_tokens")["expected"]), "tokens")
        for case in ("M01", "M02", "M26", "M35", "M36", "M37", "M38", "M39", "M40", "M42")
    },
}
"""What each log says of its pool, and in what it says it."""


def predicted_capacity(case: str) -> float:
    """What the planner says of the pool, in the unit of the log."""
    _, unit = CAPACITY[case]
    return STARTS[case].room_gib() if unit == "GiB" else STARTS[case].tokens()
