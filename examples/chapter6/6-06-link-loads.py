"""Question 6-6 (c): 16 cards in a ring reduce 8 MiB in pairs. How busy is the busiest link?

python examples/chapter6/6-06-link-loads.py
"""

from costmodels.collectives.link_loads import ALGORITHMS, rounds

CARDS, VECTOR_MIB = 16, 8
LINK = 50e9
"""Bytes per second of one link."""

for name in ALGORITHMS:
    found = rounds(name, CARDS, line=False)[:3]
    for number, turn in enumerate(found, start=1):
        print(
            f"{name} {number}: {turn.hops} hops, {turn.busiest * VECTOR_MIB:g} MiB on the busiest "
            f"link, {turn.total * VECTOR_MIB:g} MiB on all"
        )
    seconds = sum(turn.busiest for turn in found) * VECTOR_MIB * 2**20 / LINK
    print(f"{name}: {seconds * 1e6:.2f} us")
