"""What a user may say of a fleet: pools of machines, and what is demanded of them together."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from specs.base import Count, Name, Spec
from specs.errors import Fault, SpecError, nearest
from specs.hardware import HardwareSpec
from specs.model import ModelSpec
from specs.units import BytesPerSecond, MoneyPerSecond, PerSecond, Seconds
from specs.workload import SessionClass, Workload

if TYPE_CHECKING:
    from specs.problem import Problem

Role = Literal["both", "prefill", "decode"]
"""What an instance does: whole sessions, only their prompts, or only what follows a prompt."""


class Pool(Spec):
    """Machines of one kind; all of the machine where no size is given."""

    name: Name
    """Name of the pool; that of its machine if not given."""
    hardware: HardwareSpec | None = None
    """The machine; that of the spec if not given."""
    cards: Count | None = None
    """Cards in the pool, in whole servers."""
    servers: Count | None = None
    """Servers in the pool, in place of ``cards``."""
    racks: Count | None = None
    """Racks in the pool, each as full as the machine says, in place of ``cards``."""
    price: MoneyPerSecond | None = None
    """Price of one card for a time, in place of what the machine states."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        given = [n for n in ("cards", "servers", "racks") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(f"takes one of cards, servers and racks, got {' and '.join(given)}")
        return self


class Demand(SessionClass):
    """Sessions of one shape on one model: so many a second, or all at one moment."""

    model: ModelSpec | None = None
    """The model that is asked for; that of the spec if not given."""
    rate: PerSecond | None = None
    """Sessions that start per second, on a lasting average."""

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.share is not None:
            raise ValueError("takes a rate or sessions, and no share")
        if (self.rate is None) == (self.sessions is None):
            raise ValueError(
                "takes either rate (sessions per second) or sessions (all at one moment)"
            )
        return self


class Survive(Spec):
    """Failures after which every demand is still served in full."""

    server: Annotated[int, Field(ge=0, le=1, strict=True)] = 0
    """Servers that may fail, whichever they are: 0 or 1."""
    card: Annotated[int, Field(ge=0, le=1, strict=True)] = 0
    """Cards that may fail, whichever they are: 0 or 1."""


class Network(Spec):
    """What joins machines and pools beyond the levels of a machine."""

    bandwidth: BytesPerSecond
    """Bandwidth of one card, in each direction."""
    latency: Seconds
    """Start-up time of a transfer."""


class Fleet(Spec):
    """Pools of machines, and demands that they serve together."""

    pools: Annotated[tuple[Pool, ...], Field(min_length=1, max_length=16)]
    """The machines there are."""
    demands: Annotated[tuple[Demand, ...], Field(min_length=1, max_length=32)]
    """What is to be served: all rates, or all bursts that come at one moment."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ("both", "prefill", "decode")
    """Roles that instances may take; prompts are handed over where a network joins the cards."""
    survive: Survive = Survive()
    """Failures after which the rates are still met."""
    network: Network | None = None
    """What joins machines and pools; none if not given."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for what, parts in (("pool", self.pools), ("demand", self.demands)):
            names = [part.name for part in parts]
            if len(set(names)) != len(names):
                raise ValueError(f"{what} names must differ, got {names}; give each a name")
        bursts = [demand.name for demand in self.demands if demand.sessions]
        if 0 < len(bursts) < len(self.demands):
            raise ValueError(
                "demands are all rates or all bursts, as a cost per second and one per burst do "
                f"not add up; bursts are {', '.join(bursts)}"
            )
        if bursts and (self.survive.server or self.survive.card):
            raise ValueError("survive belongs to rates, and these demands are bursts")
        if ("prefill" in self.roles) != ("decode" in self.roles):
            raise ValueError("roles prefill and decode go together")
        return self

    @property
    def bursts(self) -> bool:
        """Whether the demands are bursts, and not rates."""
        return self.demands[0].sessions is not None


def written_out(raw: Any, spec: Mapping[str, Any], write: Callable[[str, Any], Any]) -> Any:
    """Return a raw fleet with machines, models and named classes written out.

    Parameters
    ----------
    raw: the fleet as it stands in a spec.
    spec: the spec around it, with its own parts written out: a demand may name one of its classes.
    write: given ``model`` or ``hardware`` and what stands there, returns it written out.
    """
    if not isinstance(raw, Mapping):
        return raw
    found, wrong = dict(raw), list[Fault]()
    for key, part in (("pools", "hardware"), ("demands", "model")):
        if not isinstance(raw.get(key), list | tuple):
            continue
        items = []
        for index, item in enumerate(raw[key]):
            place = f"fleet.{key}[{index}]"
            try:
                items.append(_item(item, part, place, spec, write))
            except SpecError as error:
                wrong += error.faults
        found[key] = items
    if wrong:
        raise SpecError(wrong)
    return found


def _item(
    item: Any, part: str, place: str, spec: Mapping[str, Any], write: Callable[[str, Any], Any]
) -> Any:
    if not isinstance(item, Mapping):
        return item
    done = dict(item)
    if done.get(part) is not None:
        try:
            done[part] = write(part, done[part])
        except SpecError as error:
            raise SpecError(
                Fault(f"{place}.{f.path}", f.value, f.message, f.hint) for f in error.faults
            ) from None
    if part == "hardware":
        machine = done.get(part) or spec.get(part) or {}
        return {"name": machine.get("name", "pool"), **done}
    if "class" in done:
        named = done.pop("class")
        done = {**_class(spec, named, f"{place}.class"), "name": named, **done}
    return done


def _class(spec: Mapping[str, Any], named: Any, place: str) -> dict[str, Any]:
    """Return the lengths and limits of a class of the workload."""
    workload = spec.get("workload")
    listed = workload.get("classes") if isinstance(workload, Mapping) else None
    known = {c.get("name"): c for c in listed or () if isinstance(c, Mapping)}
    if named not in known:
        hint = nearest(str(named)[:80], [str(name) for name in known])
        raise SpecError.single(place, named, "the workload has no class of that name", hint)
    return {k: v for k, v in known[named].items() if k not in ("sessions", "share")}


def completed(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec whose fleet is written out, with the parts that it leaves to the fleet.

    Those of the first demand and the first pool, so that such a spec is a problem as well: how to
    serve the first demand on the first pool alone.
    """
    fleet = raw["fleet"]
    try:
        pool, demand = fleet["pools"][0], fleet["demands"][0]
        shape = {k: v for k, v in demand.items() if k in SessionClass.model_fields}
        kind = "burst" if demand.get("sessions") else "steady"
        machine, price = pool.get("hardware"), pool.get("price")
        if machine and price is not None:
            machine = {**machine, "card": {**machine["card"], "price": price}}
        parts = {
            "model": demand.get("model"),
            "hardware": machine,
            "workload": {"kind": kind, "classes": [shape]},
        }
    except (KeyError, IndexError, TypeError, AttributeError):
        return dict(raw)  # What is missing there is told when the fleet is checked.
    return {**{k: v for k, v in parts.items() if v is not None}, **raw}


def machine_of(problem: "Problem", pool: Pool) -> HardwareSpec:
    """Return the machine of a pool, at the price of the pool."""
    hardware = pool.hardware or problem.hardware
    if pool.price is None:
        return hardware
    card = hardware.card.model_copy(update={"price": pool.price})
    return hardware.model_copy(update={"card": card})


def instance_problem(problem: "Problem", demand: Demand, pool: Pool) -> "Problem":
    """Return the problem of one instance that serves a demand on a pool, checked.

    Raises ``pydantic.ValidationError`` where that model, load and machine do not go together.
    """
    hardware, limits, space = machine_of(problem, pool), problem.limits, problem.space
    size = pool.cards or (pool.servers or hardware.cards) * hardware.server.cards
    shape = {name: getattr(demand, name) for name in SessionClass.model_fields}
    workload = Workload(
        kind="burst" if demand.sessions else "steady",
        serving=problem.workload.serving,
        classes=(SessionClass.model_validate(shape),),
    )
    cards = min(hardware.cards, size, limits.cards or size)
    content = {name: getattr(problem, name) for name in type(problem).model_fields} | {
        "name": f"{demand.name} on {pool.name}",
        "model": demand.model or problem.model,
        "hardware": hardware,
        "workload": workload,
        # One instance would be all that can fail; the fleet holds that limit as a whole.
        "limits": limits.model_copy(update={"cards": cards, "blast_radius": None}),
        "space": space.model_copy(update={"replicas": (1,)}),
        "assumptions": problem.assumptions.model_copy(update={"billing": "used"}),
        "uncertainty": {},
        "fleet": None,
    }
    return type(problem).model_validate(content)


def check(problem: "Problem") -> None:
    """Refuse a fleet whose parts do not go together; raises ``ValueError`` that names the place."""
    fleet = problem.fleet
    assert fleet is not None
    for axis in ("replicas", "prefill_replicas"):
        if getattr(problem.space, axis) is not None:
            raise ValueError(
                f"space.{axis}: must be left out with a fleet, which chooses how many instances"
            )
    if problem.search.variables:
        raise ValueError("search.variables: must be left out with a fleet, which chooses numbers")
    domain = problem.space.domain
    if domain == "open" or (domain is not None and len(domain) > 1):
        raise ValueError(
            "space.domain: must be one value with a fleet, as a pool is built with one"
        )
    for pool in fleet.pools:
        _check_pool(machine_of(problem, pool), pool)
        for demand in fleet.demands:
            try:
                instance_problem(problem, demand, pool)
            except ValidationError as error:
                raise ValueError(_placed(error, demand, pool)) from None


def _check_pool(hardware: HardwareSpec, pool: Pool) -> None:
    place, server, rack = f"fleet.pools.{pool.name}", hardware.server.cards, hardware.facility.rack
    if pool.cards is not None and pool.cards % server:
        raise ValueError(
            f"{place}.cards: must be whole servers of {server} cards, got {pool.cards}"
        )
    if pool.racks is not None and rack.servers is None and rack.power is None:
        raise ValueError(
            f"{place}.racks: {hardware.name} states neither servers nor power of a rack; give "
            f"servers or cards"
        )


def _placed(error: ValidationError, demand: Demand, pool: Pool) -> str:
    """Return the first fault of a problem of one instance, at its place in the fleet."""
    first = error.errors(include_url=False, include_input=False)[0]
    text = str(first.get("ctx", {}).get("error", first["msg"]))
    path, colon, rest = text.partition(": ")
    for part, place in (
        ("hardware.", f"fleet.pools.{pool.name}.hardware."),
        (f"workload.classes.{demand.name}", f"fleet.demands.{demand.name}"),
    ):
        if colon and path.startswith(part):
            return f"{place}{path.removeprefix(part)}: {rest}"
    return f"fleet.demands.{demand.name}: on pool {pool.name}: {text}"
