"""A fact is deleted: what the tuples that it linked have counted through it is taken back, in the first instant from its end on."""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.engine.compiled.class_prices import count_matches
from penstock.engine.compiled.facts.chains import earlier, within
from penstock.engine.compiled.facts.fact_counts import lower, recount
from penstock.engine.compiled.order.ranking import SCORE
from penstock.engine.compiled.state import Memory, cells, endings, fact_cells, ties


@kernel
def end_facts(memory: Memory) -> None:
    """Take note of the facts whose end has come."""
    begin = memory.ended
    end = begin
    while end < memory.n_endings and endings(memory)[end].end <= memory.now:
        end += 1
    memory.ended = end
    memory.settled = memory.now
    if not memory.paired or memory.kind == SCORE:
        return
    for at in range(begin, end):
        first = int(endings(memory)[at].link)
        for link in range(first, ties(memory)[first].last):
            if memory.growing or memory.worthy or memory.facts_weigh:
                slot = _linked(memory, at, link, -1)
                while slot >= 0:
                    recount(memory, slot)
                    slot = _linked(memory, at, link, slot)
            else:
                _take_back(memory, at, link)
    if memory.growing and begin < end:
        count_matches(memory)  # whether arrivals are turned away is decided by these prices


@kernel
def _linked(memory: Memory, at: int, link: int, slot: int) -> int:
    """The tuple before this one (-1: the last) that a fact linked, by one of its links; -1 if there is none."""
    ending, rank = endings(memory)[at], int(ties(memory)[link].rank)
    if slot < 0:
        slot = int(cells(memory)[fact_cells(memory)[ending.fact * memory.span + link - ending.link]].tail)
    else:
        slot = earlier(memory, slot, rank)
    return within(memory, slot, rank, ending.begin, ending.end)


@kernel
def _take_back(memory: Memory, at: int, link: int) -> None:
    """Whole numbers: all tuples of one link have as many matches less as the fact linked there are of another."""
    partners = 0
    slot = _linked(memory, at, link, -1)
    while slot >= 0:
        partners += 1
        slot = _linked(memory, at, link, slot)
    first = int(endings(memory)[at].link)
    for other in range(first, ties(memory)[first].last if partners > 0 else first):
        slot = _linked(memory, at, other, -1) if other != link else -1
        while slot >= 0:
            lower(memory, slot, int(ties(memory)[link].stream), float(partners))
            slot = _linked(memory, at, other, slot)
