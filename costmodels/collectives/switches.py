"""Switch networks: tiers, chips and links of a folded Clos network, and its uplinks (6.5.1).

Cards stand below leaf chips; what one leaf cannot join, a further tier does. A tier between the
leaves and the top splits its ports half down, half up; leaves split theirs by the stated
oversubscription, and the top has all its ports down. ``cards`` is an array of shape ``(plans,)``
or a number. A switch that states no radix has as many ports as needed: one tier.
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray
from specs.fabric import Switch

Cards = IntArray | int

_ROUNDING = 1e-9
"""Keeps whole numbers of ports whole where their ratio is not a binary fraction."""


def leaf_ports(radix: int, oversubscription: float) -> tuple[int, int]:
    """Ports of a leaf chip down to cards and up to the next tier, at most in the stated ratio."""
    down = int(radix * oversubscription / (1 + oversubscription) + _ROUNDING)
    return down, radix - down


def tier_sizes(switch: Switch, cards: Cards) -> list[int]:
    """Most cards that 1, 2, … tiers join, up to those that the largest of ``cards`` needs."""
    if switch.radix is None:
        return [int(np.max(cards))]
    sizes = [switch.radix]
    size = leaf_ports(switch.radix, switch.oversubscription)[0] * switch.radix
    while sizes[-1] < np.max(cards):
        sizes.append(size)
        size *= switch.radix // 2
    return sizes


def tiers(switch: Switch, cards: Cards) -> IntArray:
    """Tiers of chips that a network of ``cards`` cards needs."""
    return 1 + np.searchsorted(tier_sizes(switch, cards), cards).astype(np.int64)


def tiers_crossed(switch: Switch, domain: Cards, ranks: Cards, stride: Cards) -> IntArray:
    """Tiers on the way between the farthest two of ``ranks`` cards, ``stride`` apart.

    Blocks of neighbouring cards stand below one leaf, larger ones below one part of each tier.
    """
    built = tiers(switch, domain)
    span = np.asarray(ranks) * stride
    crossed = np.ones(np.broadcast(domain, span).shape, dtype=np.int64)
    if switch.radix is not None:
        block = leaf_ports(switch.radix, switch.oversubscription)[0]
        for tier in range(1, int(np.max(built, initial=1))):
            crossed += (built > tier) & (block % np.maximum(span, 1) != 0)
            block *= switch.radix // 2
    return crossed


def uplink_share(
    switch: Switch, domain: Cards, ranks: Cards, stride: Cards, rings: Cards | None = None
) -> FloatArray:
    """Share of its bandwidth that a card has from leaf to leaf: all of it within one leaf.

    ``rings`` interleaved rings of neighbours leave a leaf once each, and twice where groups are
    no whole number of leaves, so that a second group lies on the same leaf. Without rings all
    cards of a leaf send upwards at once, and each has 1/oversubscription.
    """
    if switch.radix is None:
        return np.ones(np.broadcast(domain, ranks, stride).shape)
    down, _ = leaf_ports(switch.radix, switch.oversubscription)
    crossed = tiers_crossed(switch, domain, ranks, stride) > 1
    sending: Cards = down
    if rings is not None:
        whole = np.asarray(ranks) * stride % down == 0
        sending = np.minimum(np.where(whole, 1, 2) * rings, down)
    share = down / (switch.oversubscription * np.asarray(sending))
    return np.where(crossed, np.minimum(share, 1.0), 1.0)


def chips(switch: Switch, cards: Cards) -> IntArray:
    """Switch chips of a network, over all planes; each tier has the fewest that its ports allow.

    64 ports: 64 cards take one chip a plane, 512 cards 16 leaves and 8 spines (6.5.1).
    """
    count = tiers(switch, cards)
    if switch.radix is None:
        return switch.planes * count
    down, up = leaf_ports(switch.radix, switch.oversubscription)
    leaves = -(-np.asarray(cards) // down)
    return switch.planes * np.where(
        count == 1, 1, clos_chips(leaves, leaves * up, switch.radix, count)
    )


def clos_chips(
    leaves: IntArray | int, uplinks: IntArray | int, radix: int, count: IntArray | int = 2
) -> IntArray:
    """Chips of one plane of ``count`` tiers (2 or more) above which ``uplinks`` leave the leaves.

    Every tier passes on as many links as it takes in, over chips of ``radix`` ports.
    """
    middle = (np.asarray(count) - 2) * -(-2 * np.asarray(uplinks) // radix)
    return leaves + middle + -(-np.asarray(uplinks) // radix)


def links(switch: Switch, cards: Cards) -> IntArray:
    """Links of a network, those of the cards included, over all planes."""
    between = tiers(switch, cards) - 1
    if switch.radix is None:
        return switch.planes * np.asarray(cards)
    down, up = leaf_ports(switch.radix, switch.oversubscription)
    leaves = -(-np.asarray(cards) // down)
    return switch.planes * (np.asarray(cards) + between * leaves * up)
