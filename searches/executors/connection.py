"""The way to a Ray cluster: which one, who may enter, and whether its nodes run the same planner.

Ray waits minutes for an address that does not answer, and would run tasks on nodes with another
version of the planner; both are found out first.
"""

import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from specs.errors import SpecError
from specs.fingerprint import code_fingerprint

_ANSWER_S = 5.0
"""How long an address may take to answer."""

_PROBE_S = 60.0
"""How long all nodes together may take to say which planner they have."""

_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first words of HTTP/2, which Ray's servers speak; they answer with settings of their own."""

_SETTINGS = bytes([4])
"""The kind of frame that they answer with, its fourth byte."""

_FROM_OUTSIDE = "From outside a cluster: ray job submit --address http://HOST:8265 -- planner …"

_TOKEN = "Set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH; `ray get-auth-token` on its head prints it"

_SAME = "Install the same planner on every node; results would depend on where they are computed"

Identity = tuple[str, str, str]
"""Version of the planner, fingerprint of its code, version of numpy."""


@contextmanager
def connected(address: str | None, name: str) -> Iterator[Any]:
    """Yield Ray, connected; what was started or joined here is left again at the end.

    ``address`` is where to attach, ``None`` for ``$RAY_ADDRESS`` or else a cluster of this machine
    alone; ``name`` is that of the executor, for messages. Raises ``SpecError`` if there is none.
    """
    # Ray reads these when it is loaded: nothing is reported to its makers, and tasks that ask for
    # no accelerator leave its variables alone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is None and "RAY_ADDRESS" in os.environ:
        address = os.environ["RAY_ADDRESS"]
        name = f"RAY_ADDRESS={address}"
    if address is None:
        _keep_others_out()
    else:
        _show_token()
        _require_answer(address, name)
        # Seconds that Ray tries for, once a second: the address is known to answer.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")
    import ray

    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            ray.init(address="local", include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as error:
        raise SpecError.single("search.executor", name, *_refusal(error)) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _keep_others_out() -> None:
    """Let only this process and its workers into a cluster started here, by a token of its own.

    Ray would write a token into the home folder.
    """
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))


def _show_token() -> None:
    """Show the token of a cluster where the user has one: to a given address Ray would not."""
    stated = any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if stated or (Path.home() / ".ray" / "auth_token").is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def require_address(address: str, name: str) -> tuple[str, int] | None:
    """Return the host and the port of an address, or ``None`` for ``auto``; refuse other words."""
    if address == "auto":
        return None
    host, _, port = address.rpartition(":")
    whole = port.isascii() and port.isdigit() and 0 < int(port) < 2**16
    if not host or "/" in host or not whole:
        message = "expected ray:HOST:PORT, the address of `ray start`, or ray:auto"
        raise SpecError.single(
            "search.executor", name, message, _FROM_OUTSIDE if "//" in address else ""
        )
    return host.strip("[]"), int(port)


def _require_answer(address: str, name: str) -> None:
    """Refuse an address where nothing that could be Ray answers."""
    place = require_address(address, name)
    if place is None:
        return
    try:
        with socket.create_connection(place, timeout=_ANSWER_S) as line:
            line.sendall(_HELLO)
            answer = line.recv(9)
    except OSError as error:
        message = f"no Ray cluster answers at {address}: {error.strerror or error}"
        hint = "`ray status` on its head node shows the address"
        raise SpecError.single("search.executor", name, message, hint) from error
    if answer[3:4] != _SETTINGS:
        message, hint = f"what answers at {address} is not Ray", "`ray start` takes port 6379"
        raise SpecError.single("search.executor", name, message, hint)


def _refusal(error: BaseException | None) -> tuple[str, str]:
    """Return the message and the hint for an error of ``ray.init``."""
    told: list[str] = []
    while error is not None:
        told.append(" ".join(str(error).split()))
        error = error.__cause__
    if any(word in text for text in told for word in ("InvalidAuthToken", "oken authentication")):
        return "this Ray cluster asks for a token, and lets in nobody without the right one", _TOKEN
    return f"cannot join the Ray cluster: {told[0]}", ""


@cache
def identity() -> Identity:
    """Return what must be equal on all nodes for the same answer on all of them."""
    return version("llm-deployment-planner"), code_fingerprint(), version("numpy")


def require_same_code(ray: Any, name: str) -> None:
    """Refuse a cluster without processors, or with a node whose planner is not the one here."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise SpecError.single("search.executor", name, "no node of this Ray cluster has a CPU")
    probe = ray.remote(num_cpus=0, max_retries=0)(_look())
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[probe.options(scheduling_strategy=there).remote()] = node["NodeManagerHostname"]
    answered, late = ray.wait(list(asked), num_returns=len(asked), timeout=_PROBE_S)
    for silent in late:
        ray.cancel(silent, force=True)
    if late:
        hosts = ", ".join(sorted({asked[node] for node in late}))
        raise SpecError.single(
            "search.executor", name, f"no answer within {_PROBE_S:.0f} s from {hosts}"
        )
    for answer in answered:
        # A node that left meanwhile does no harm.
        with suppress(ray.exceptions.RayError):
            require_same(ray.get(answer), identity(), asked[answer])


def require_same(there: Identity | str, here: Identity, host: str) -> None:
    """Refuse a node by what its planner is, or by why it has none."""
    if isinstance(there, str):
        message = f"node {host} has no planner that could work with this one ({there})"
        raise SpecError.single("search.executor", None, message, _SAME)
    for what, theirs, ours in zip(("planner", "code", "numpy"), there, here, strict=True):
        if theirs != ours:
            message = f"node {host} has {what} {theirs[:12]}, and this process {ours[:12]}"
            raise SpecError.single("search.executor", None, message, _SAME)


def _look() -> Callable[[], Identity | str]:
    """Return a function that travels by value, so that it runs where the planner is missing."""

    def look() -> Identity | str:
        try:
            from searches.executors.connection import identity

            return identity()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return look
