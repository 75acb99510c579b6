"""Pictures show every memory and every size of domain, whatever a document lists."""

import numpy as np
import pytest

from planner import rank
from results.plots import COLOURS, figures
from results.words import best_sizes
from tests.golden.specs import ranking

SIZING = "examples/supernode-sizing.yaml"
ROM = "examples/chapter6/6-11-rom.yaml"
FOUR = "examples/qwen3-32b-128k-hgx-h100.yaml"


@pytest.mark.parametrize("top", [1, 10, 100])
def test_the_best_of_each_size_and_placement_is_listed_whatever_the_top(top: int) -> None:
    answer = rank(SIZING)
    listed = answer.document(top)["by_domain"]
    axes = ["domain", "engram_tier", "kv_tier"]
    best = answer.frame().sort_values("rank").groupby(axes, as_index=False).first()
    assert sorted([*(item[a] for a in axes), item["rank"]] for item in listed) == sorted(
        best[[*axes, "rank"]].values.tolist()
    )
    frame = answer.frame().set_index("rank")
    for item in listed:
        row = frame.loc[item["rank"]]
        assert item["tokens_per_s_per_card"] == row["tokens_per_s"] / row["cards"]
        assert item["cost_per_on_time_session"] == row["cost_per_on_time_session"]


def test_sizes_are_listed_only_where_several_occur() -> None:
    for document in (ranking(FOUR), ranking(SIZING, "space.domain=[64]")):
        assert "by_domain" not in document
        assert best_sizes(document) == []
        assert "supernodes" not in figures(document)


def test_other_memories_have_a_picture_of_their_shares() -> None:
    document = ranking(ROM)
    figure = figures(document)["memories"]
    shares = {bar.name: bar.x[0] for bar in figure.data}
    for tier in document["plans"][0]["memory"]["tiers"]:
        filled = tier["per_card_bytes"] / tier["capacity_bytes"]
        assert shares[tier["tier"]] == pytest.approx(100 * filled)
    assert set(shares) == {"hbm", "rom"}
    assert "memories" not in figures(ranking(FOUR))


def test_the_working_memory_is_named_and_its_capacity_never_hides_the_bars() -> None:
    full, empty = figures(ranking(FOUR))["memory"], figures(ranking(ROM))["memory"]
    assert full.layout.title.text == "hbm of the fullest card, of 80 GB"
    assert [line.x0 for line in full.layout.shapes] == [80]
    assert empty.layout.title.text == "hbm of the fullest card, of 870.75 GB"
    assert not empty.layout.shapes


@pytest.mark.parametrize("source", [FOUR, SIZING, ROM])
def test_components_of_a_picture_have_colours_of_their_own(source: str) -> None:
    drawn = figures(ranking(source))
    for name in ("step", "memory"):
        colours = [bar.marker.color for bar in drawn[name].data]
        assert len(set(colours)) == len(colours)
        assert set(colours) <= set(COLOURS)
        assert all(np.any(bar.x) for bar in drawn[name].data)
