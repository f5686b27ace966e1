"""Shares: what all points together say, who gives and who takes, and that the sum holds whoever acts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.shard.shares.next_shares import EQUAL, Summary, equal_share, next_shares, part, targets
from strategies import examples

POINTS = st.lists(st.tuples(st.sampled_from((0.0, 1.0, 1.5, 2.0, 8.0)), st.integers(0, 40)), min_size=1, max_size=8)


def slow_targets(points: list[Any], least: list[int]) -> list[float]:
    """By hand: each shard has its least, then the best that is left goes first; of what ties, all have the same part."""
    n = len(points)
    wanted = [one / EQUAL for one in least]
    queue = []
    for shard, (scores, weights) in enumerate(points):
        spared = wanted[shard]
        for score, weight in sorted(zip(scores, weights, strict=True), key=lambda pair: -pair[0]):
            spared, left = max(0.0, spared - weight), max(0.0, weight - spared)
            queue.append((score, shard, left))
    room = n - sum(wanted)
    for score in sorted({score for score, _, _ in queue}, reverse=True):
        tied = sum(weight for at, _, weight in queue if at == score)
        part = 1.0 if tied <= room else room / tied
        for at, shard, weight in queue:
            wanted[shard] += weight * part if at == score else 0.0
        room -= tied * part
    return [one + room / n for one in wanted]


@examples()
@given(st.lists(POINTS, min_size=1, max_size=6), st.integers(0, EQUAL))
def test_targets_are_what_filling_by_hand_gives(found, least):
    points = [([score for score, _ in own], [weight / 16 for _, weight in own]) for own in found]
    got = targets(points, np.full(len(points), least)) / EQUAL
    assert got == pytest.approx(slow_targets(points, [least] * len(points)), abs=1e-4)
    assert got.sum() <= len(points) + 1e-9


@st.composite
def worlds(draw: Any) -> tuple[list[Summary], list[list[bool]], list[list[Any]]]:
    n = draw(st.integers(2, 5))
    cuts = draw(st.lists(st.integers(1, EQUAL), min_size=n, max_size=n))
    row = draw(st.integers(1, EQUAL))
    begin = [Summary(0, shard, n, (cut,), (row,), (((0.0,), (1.0,)),)) for shard, cut in enumerate(cuts)]
    acts = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=6))
    worth = [draw(st.lists(POINTS, min_size=n, max_size=n)) for _ in acts]
    return begin, acts, worth


@examples()
@given(worlds())
def test_whichever_shards_act_together_they_never_hold_more_than_the_memory(world):
    told, acts, worth = world
    n = len(told)
    held = [one.share[0] for one in told]
    for acting, points in zip(acts, worth, strict=True):
        now = [tuple(zip(*((score, weight / 16) for score, weight in own), strict=True)) for own in points]
        told = [Summary(0, shard, n, (held[shard],), told[shard].row, (now[shard],)) for shard in range(n)]
        new = next_shares(told)
        # A shard that does not act holds what it held, and has told so; the others have decided without knowing that it would not.
        held = [int(new[shard][0]) if acting[shard] else held[shard] for shard in range(n)]
        assert sum(held) <= n * EQUAL and min(held) > 0
        assert all(int(one[0]) >= min(EQUAL // 256, before.share[0]) for one, before in zip(new, told, strict=True))


def test_what_is_given_up_is_taken_a_batch_later_and_all_of_it():
    # worth     shard 0   9 9 9 9        shard 1   1 1 ...     shard 0 should have nearly all
    rich, poor = ((9.0,), (4.0,)), ((1.0,), (4.0,))
    held, seen = [EQUAL, EQUAL], []
    for batch in range(8):
        told = [Summary(batch, shard, 2, (held[shard],), (1,), (points,)) for shard, points in enumerate((rich, poor))]
        held = [int(one[0]) for one in next_shares(told)]
        seen.append(held)
    assert seen[0][0] == EQUAL and seen[0][1] < EQUAL  # nothing was free yet
    assert seen[1][0] == 2 * EQUAL - seen[0][1]  # all that was given up before
    assert seen[-1][0] > 1.98 * EQUAL and seen[-1][1] >= EQUAL // 256


def test_pools_move_by_themselves():
    tie, better = ((1.0,), (3.0,)), ((2.0,), (3.0,))
    told = [Summary(0, 0, 2, (EQUAL, EQUAL), (1, 1), (tie, better)), Summary(0, 1, 2, (EQUAL, EQUAL), (1, 1), (tie, tie))]
    first, second = next_shares(told)
    assert first.tolist() == [EQUAL, EQUAL] and second[0] == EQUAL and second[1] < EQUAL


def test_of_the_same_load_everybody_keeps_an_equal_share_and_noise_moves_little():
    alike = [Summary(0, shard, 4, (EQUAL,), (EQUAL // 100,), (((0.0,), (7.0,)),)) for shard in range(4)]
    assert [one.tolist() for one in next_shares(alike)] == [[EQUAL]] * 4
    noisy = [Summary(0, shard, 2, (EQUAL,), (EQUAL // 100,), (((0.0,), (load,)),)) for shard, load in enumerate((7.0, 6.6))]
    assert EQUAL * 0.99 < next_shares(noisy)[1][0] < EQUAL  # its target is 0.97


def test_parts_of_a_memory_are_whole_and_never_more_than_it():
    caps = np.array([[10**15, 3]])
    assert part(caps, equal_share(2)).tolist() == caps.tolist()
    shares = [EQUAL // 3, EQUAL, 2 * EQUAL - EQUAL // 3]
    assert sum(part(caps, np.array([share, share]))[0, 0] for share in shares) <= 3 * 10**15


def test_a_summary_survives_json_and_refuses_what_is_none():
    one = Summary(3, 1, 2, (EQUAL, 5), (1, 2), (((0.1, 1e-300), (0.25, 2.0)), ((0.0,), (1.0,))))
    assert Summary.of(one.facts()) == one
    for wrong in ({"share": [1]}, {"points": [[[1.0], []], [[], []]]}):
        with pytest.raises(ValueError, match="for each pool"):
            Summary.of(one.facts() | wrong)
    for bad in ({"share": [-1, 5]}, {"points": [[[float("nan")], [1.0]]] * 2}, {"points": [[[1.0], [-1.0]]] * 2}):
        with pytest.raises(ValueError, match="finite numbers"):
            Summary.of(one.facts() | bad)
