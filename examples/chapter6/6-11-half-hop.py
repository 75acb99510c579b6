"""Question 6-11 (d): weights in ROM, hops on the wafer in half the time: how fast is one session?

A token takes max(weights, KV, compute) / balance + collectives + what is fixed (6-15). The seconds
are those of the OpenTallas analysis of two wafers, as the theory text gives them; no chip of it
exists.

python examples/chapter6/6-11-half-hop.py
"""

WEIGHTS, KV, COMPUTE = 68.93077759219493e-6, 1.618092661498708e-6, 5.5387195144329815e-6
BALANCE, FIXED = 0.9, 10.051735374500655e-6
COLLECTIVES, HOPS = 80, 15.4
"""AllReduces of a token, and hops of each on a wafer."""
HOP, BETWEEN_WAFERS = 125e-9, 5.06835692775867e-6

for hop in (HOP, HOP / 2):
    collectives = COLLECTIVES * HOPS * hop + BETWEEN_WAFERS
    token = max(WEIGHTS, KV, COMPUTE) / BALANCE + collectives + FIXED
    print(
        f"{hop * 1e9:g} ns a hop: {token * 1e6:.2f} us a token, {1 / token:,.1f} tokens/s; "
        f"collectives {collectives * 1e6:.2f} us, {collectives / token:.1%}"
    )
