"""``python -m benchmarks.fleets``: how soon a fleet of a thousand cards is proved to a percent."""

from pathlib import Path
from time import perf_counter

from searches.executors import executor
from searches.fleet.search import search_fleet
from specs.load import load_problem

SPEC = Path(__file__).parents[1] / "examples" / "fleet" / "chat-and-code.yaml"

RATES = (
    "fleet.demands.chat.rate=500",
    "fleet.demands.documents.rate=60",
    "fleet.demands.code.rate=160",
)
NETWORK = "fleet.network={bandwidth: 400 Gb/s, latency: 5 us}"
SERVER = "fleet.survive.server=1"

CASES = {
    "as it is": (),
    "any server may fail": (SERVER,),
    "prompts apart": (NETWORK,),
    "prompts apart, a server may fail": (NETWORK, SERVER),
}

GAP = 0.01
SECONDS = 60.0


def main() -> None:
    """Print a row for each case: 1,024 cards, two pools, three classes, two models."""
    print(
        f"{'1,024 cards':<34} {'columns':>8} {'cards':>6} {'gap':>7} {'seconds':>8}  goal {GAP:.0%}"
    )
    for name, sets in CASES.items():
        problem = load_problem(SPEC, [*RATES, *sets])
        start = perf_counter()
        found = search_fleet(problem, executor("local"), SECONDS, GAP)
        seconds, answer = perf_counter() - start, found.answer
        cards, gap = (answer.taken["cards"], f"{answer.gap:.2%}") if answer else (0, "none")
        columns = len(found.question.columns)
        print(f"{name:<34} {columns:>8} {cards:>6} {gap:>7} {seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
