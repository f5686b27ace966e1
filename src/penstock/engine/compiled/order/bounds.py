"""The lowest of a stream whose prices all change at once: searched by bounds, since no order among its tuples stays.

Where streams match freely, the price of a tuple is its own times a factor that all of its stream have, and each instant changes the factor.
The order of products is not touched by that; that of sums (`additive`) and of what exceeds the price of a slot (`elife`) is. So an entry
of such a tournament has no winner, but the least of each part of a rank among the tuples below it:

    nodes     the least of what is below      price   expiry (elife) or fixed score (additive)   time
    leaves    a tuple                         price   expiry            fixed score              time

A rank made of these parts is not above that of any tuple below. The search goes down where it is lowest and leaves out what cannot be below
the best that was found. Nothing is done when the factor changes.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import inlined, kernel
from penstock.core.window import NEVER
from penstock.engine.compiled.key_clocks import leaves_at
from penstock.engine.compiled.order.ranking import STAY, ahead, first, life_left, slot_price_of
from penstock.engine.compiled.order.sort_key import LAST
from penstock.engine.compiled.order.tree import BLOCK, block_of, class_at, root_at
from penstock.engine.compiled.state import Memory, groups, holders, keys, lanes, leasts, moments, ranks, slots, stack, worths

_ROUNDING = 1e-13  # products that are closer, relatively, are compared exactly


@inlined
def _sign(memory: Memory) -> float:
    """By what prices are multiplied, so that a low one makes a low score."""
    return -1.0 if memory.kind != STAY and memory.match_weight < 0 else 1.0


@inlined
def empty_bounds(memory: Memory, at: int) -> None:
    """Nobody is below an entry."""
    holders(memory)[at] = -1
    worths(memory)[at] = np.inf
    leasts(memory)[at] = np.inf
    moments(memory)[at] = NEVER
    keys(memory)[at] = LAST


@inlined
def seat_bounds(memory: Memory, tree: int, group: int, leaf: int, there: bool) -> None:
    """Bring a leaf up to date with the first tuple of its class."""
    empty_bounds(memory, leaf)
    if there:
        slot = first(memory, 0, group)
        holders(memory)[leaf] = tree
        worths(memory)[leaf] = groups(memory)[group].price * _sign(memory)
        keys(memory)[leaf] = slots(memory)[slot].time
        if memory.kind == STAY:
            moments(memory)[leaf] = leaves_at(memory, slot)
        else:
            leasts(memory)[leaf] = ranks(memory)[slot].score


@kernel
def gather_bounds(memory: Memory, tree: int, root: int, node: int) -> bool:
    """Take the least parts from the entries of a block; whether any of them has changed."""
    block = block_of(memory, tree, root, node)
    price, score, expiry, time, there = np.inf, np.inf, NEVER, LAST, False
    for at in range(block, block + BLOCK):
        there |= holders(memory)[at] >= 0
        price = min(price, worths(memory)[at])
        score = min(score, leasts(memory)[at])
        expiry = min(expiry, moments(memory)[at])
        time = min(time, keys(memory)[at])
    at = root + node
    same = worths(memory)[at] == price and leasts(memory)[at] == score and moments(memory)[at] == expiry and keys(memory)[at] == time
    holders(memory)[at] = 0 if there else -1
    worths(memory)[at] = price
    leasts(memory)[at] = score
    moments(memory)[at] = expiry
    keys(memory)[at] = time
    return not same


@kernel
def climb_bounds(memory: Memory, tree: int, group: int) -> None:
    """Bring the bounds above a leaf up to date."""
    root = root_at(memory, 0, tree)
    node = memory.inner + group
    while node > 0:
        node = (node - 1) // BLOCK
        memory.steps += 1
        if not gather_bounds(memory, tree, root, node):
            return


@inlined
def _price_at(memory: Memory, stream: int, at: int) -> float:
    """The least price below an entry."""
    return float(worths(memory)[at] * _sign(memory) * lanes(memory)[stream].factor)


@inlined
def _score_at(memory: Memory, stream: int, at: int) -> float:
    """A score that is not above that of any tuple below an entry, made by the same steps."""
    price = _price_at(memory, stream, at)
    if memory.kind == STAY:
        return float(life_left(memory, stream, moments(memory)[at]) * max(0.0, price - slot_price_of(memory, stream)))
    return float(leasts(memory)[at] + memory.match_weight * price)


@inlined
def _may_be_below(memory: Memory, stream: int, at: int, best: int) -> bool:
    """Whether a tuple below an entry may leave before that of leaf `best`."""
    score, least = _score_at(memory, stream, at), _score_at(memory, stream, best)
    if memory.kind == STAY:
        if score != 0.0 or least != 0.0:
            return bool(score * (1 - _ROUNDING) <= least)
        if _price_at(memory, stream, at) != _price_at(memory, stream, best):
            return bool(_price_at(memory, stream, at) < _price_at(memory, stream, best))
    elif score != least:
        return bool(score < least)
    return bool(keys(memory)[at] <= keys(memory)[best])


@inlined
def _is_nearer(memory: Memory, stream: int, at: int, other: int) -> bool:
    """Which of two entries to look below first."""
    score, rival = _score_at(memory, stream, at), _score_at(memory, stream, other)
    if score != rival:
        return bool(score < rival)
    if memory.kind == STAY and worths(memory)[at] != worths(memory)[other]:
        return bool(worths(memory)[at] < worths(memory)[other])
    return bool(keys(memory)[at] < keys(memory)[other])


@kernel
def lowest_by_bounds(memory: Memory, stream: int) -> int:
    """The group of a stream whose tuple leaves first, -1 if there is none."""
    tree = int(lanes(memory)[stream].tree)
    root = root_at(memory, 0, tree)
    if holders(memory)[root] < 0:
        return -1
    path = stack(memory)  # nodes to look below, the most promising last
    path[0] = 0
    depth, best = 1, -1
    base = tree * memory.leaves
    while depth > 0:
        depth -= 1
        node = path[depth]
        if best >= 0 and not _may_be_below(memory, stream, root + node, base + best):
            continue
        memory.steps += 1
        block = block_of(memory, tree, root, node)
        below = BLOCK * node + 1
        pushed = depth
        for child in range(BLOCK):
            at = block + child
            if holders(memory)[at] < 0 or (best >= 0 and not _may_be_below(memory, stream, at, base + best)):
                continue
            if below >= memory.inner:
                group = class_at(memory, tree, tree, at)
                if best < 0 or ahead(memory, 0, group, best):
                    best = group
                continue
            path[depth] = below + child
            if depth > pushed and not _is_nearer(memory, stream, at, root + path[depth - 1]):
                path[depth] = path[depth - 1]
                path[depth - 1] = below + child
            depth += 1
    return best
