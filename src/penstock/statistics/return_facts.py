"""The table of keys of `returns`: what is known of each, kept up to date row by row.

Of a key, by stream: how often it came of late, when last, and where importances matter their mean; and until when its states are counted.
"""

from __future__ import annotations

import numpy as np

from penstock.core.compiled import kernel
from penstock.core.trace import Floats, Ints
from penstock.engine.chance_steps import GAPS, ONE
from penstock.engine.compiled.chances import cell_of, count_step, gap_step, step_end
from penstock.statistics.decayed import find
from penstock.statistics.key_sample import is_sampled

NOT_YET = -1e18
"""When a key came that has not come."""
_NEVER_STEP = GAPS - 1


@kernel
def settle_all(known: Ints, facts: Floats, tables: Ints, settings: Floats, spans: Floats, mask: int, now: int) -> None:
    """Count what the keys of the sample spent in their states until now."""
    for place in range(len(known)):
        if is_sampled(known[place], mask):
            _settle(facts, place, tables, len(spans), settings[0], spans, float(now))


@kernel
def observe(
    known: Ints, facts: Floats, stream: Ints, time: Ints, key: Ints, when: Ints, importance: Floats, out: Floats, tables: Ints,
    means: Floats, settings: Floats, spans: Floats, mask: int, most: int, at: Ints,
) -> bool:  # fmt: skip
    """Take note of rows instant by instant, and read what is known after each; False where it stopped before a key without room."""
    streams = len(spans)
    reach, half_life = settings[0], settings[1]
    weighs = facts.shape[1] > 2 * streams + 1
    position, row, filled = at[0], at[1], at[2]
    while position < len(time):
        end = position + 1
        while end < len(time) and time[end] == time[position]:
            end += 1
        now = float(when[position])
        alone = end == position + 1
        place = find(known, key[position]) if alone and key[position] >= 0 else 0
        if position >= at[3]:  # else it has stopped in this instant
            for came in range(position, end):
                if is_sampled(key[came], mask):
                    _count(known, facts, place if alone else find(known, key[came]), tables, streams, stream[came], now, reach, spans)
        while row < end:
            if key[row] >= 0:
                if not alone:
                    place = find(known, key[row])
                if known[place] < 0:
                    if filled >= most:
                        at[0], at[1], at[2], at[3] = position, row, filled, end
                        return False
                    known[place] = key[row]
                    filled += 1
                    for number in range(facts.shape[1]):
                        facts[place, number] = NOT_YET if streams <= number < 2 * streams else 0.0
                    facts[place, facts.shape[1] - 1] = now
                _arrive(facts, place, streams, stream[row], now, half_life)
                if weighs:
                    _weigh(facts, place, means, streams, stream[row], importance[row])
            row += 1
        for read in range(position, end):
            if key[read] >= 0:
                if not alone:
                    place = find(known, key[read])
                for number in range(out.shape[1]):
                    out[read, number] = facts[place, number]
            if weighs:
                for other in range(streams):
                    if out[read, other] <= 0.0:
                        out[read, 2 * streams + other] = means[other, 0] / means[other, 1] if means[other, 1] > 0 else 1.0
        position = end
    at[0], at[1], at[2] = position, row, filled
    return True


@kernel
def fade(known: Ints, facts: Floats, streams: int, now: float, half_life: float, least: float) -> int:
    """Take the keys out of a table, which is to be built anew, whose counts have all decayed; how many are left."""
    left = 0
    for at in range(len(known)):
        if known[at] >= 0:
            most = 0.0
            for stream in range(streams):
                if facts[at, stream] > 0.0:
                    most = max(most, facts[at, stream] * np.exp2((facts[at, streams + stream] - now) / half_life))
            if most < least:
                known[at] = -1
            left += known[at] >= 0
    return left


@kernel
def rehash(known: Ints, facts: Floats, keys: Ints, old: Floats) -> None:
    """Put keys and what is known of them into an empty table."""
    for number in range(len(keys)):
        if keys[number] >= 0:
            at = find(known, keys[number])
            known[at] = keys[number]
            for column in range(old.shape[1]):
                facts[at, column] = old[number, column]


@kernel
def _settle(facts: Floats, place: int, tables: Ints, streams: int, reach: float, spans: Floats, until: float) -> None:
    """Count what a key spent in each of its states until now."""
    marked = facts.shape[1] - 1
    begin = facts[place, marked]
    facts[place, marked] = until
    for own in range(streams):
        own_last = facts[place, streams + own]
        end = min(until, own_last + spans[own])
        if own_last <= NOT_YET or begin >= end:
            continue
        for other in range(streams):
            if other == own:
                continue
            count, last = facts[place, other], facts[place, streams + other]
            often = count_step(count)
            step = gap_step(begin - last, reach) if often > 0 else _NEVER_STEP
            own_step = gap_step(begin - own_last, reach)
            at = begin
            while at < end:
                stop = end
                if step < _NEVER_STEP:
                    stop = min(stop, last + step_end(step, reach))
                if own_step < _NEVER_STEP:
                    stop = min(stop, own_last + step_end(own_step, reach))
                cell = cell_of(streams, own, other, often, step, own_step)
                spent = int(np.floor(stop)) - int(np.floor(at))
                tables[1, cell] += int(count * ONE) * spent
                tables[2, cell] += spent
                at = stop
                if step < _NEVER_STEP and at >= last + step_end(step, reach):
                    step += 1
                if own_step < _NEVER_STEP and at >= own_last + step_end(own_step, reach):
                    own_step += 1


@kernel
def _count(
    known: Ints, facts: Floats, place: int, tables: Ints, streams: int, stream: int, now: float, reach: float, spans: Floats
) -> None:  # fmt: skip
    """Count an arrival in the states that its instant ends: a tuple that waited for it meets all that come with it."""
    if known[place] < 0:
        return
    _settle(facts, place, tables, streams, reach, spans, now)
    count, last = facts[place, stream], facts[place, streams + stream]
    often = count_step(count)
    step = gap_step(now - last, reach) if often > 0 else _NEVER_STEP
    for own in range(streams):
        own_gap = now - facts[place, streams + own]
        if own != stream and own_gap < spans[own]:
            tables[0, cell_of(streams, own, stream, often, step, gap_step(own_gap, reach))] += ONE


@kernel
def _arrive(facts: Floats, place: int, streams: int, stream: int, now: float, half_life: float) -> None:
    """A key comes: bring its count up to date."""
    count, last = facts[place, stream], facts[place, streams + stream]
    facts[place, facts.shape[1] - 1] = now
    if count > 0.0:
        count = np.floor(count * np.exp2((last - now) / half_life) * ONE) / ONE
    facts[place, stream] = count + 1.0
    facts[place, streams + stream] = now


@kernel
def _weigh(facts: Floats, place: int, means: Floats, streams: int, stream: int, importance: float) -> None:
    """Take an importance into the means of its key and of its stream."""
    count, at = facts[place, stream], 2 * streams + stream
    facts[place, at] += (importance - facts[place, at]) / count
    means[stream, 0] += importance
    means[stream, 1] += 1.0
