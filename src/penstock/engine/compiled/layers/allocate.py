"""The arrays of an engine: how large each must be for a policy, and all of them in one block."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.problem import Problem
from penstock.core.window import NEVER
from penstock.engine.chance_steps import COUNTS, GAPS, TIMERS, Scale
from penstock.engine.compiled.chances import PATH
from penstock.engine.compiled.facts.compiled_facts import CompiledFacts
from penstock.engine.compiled.key_clocks import PER_KEY
from penstock.engine.compiled.linked.links import LinkTables, fill, index_sizes
from penstock.engine.compiled.order.sort_key import LAST
from penstock.engine.compiled.order.tournament import PATIENCE
from penstock.engine.compiled.order.tree import BLOCK, shape
from penstock.engine.compiled.patterns import FEW_STREAMS
from penstock.engine.compiled.state import Memory, attach, in_one_block
from penstock.engine.contract import Bands, Ranking
from penstock.engine.fact_arrays import FACT_ARRAYS
from penstock.engine.finding import all_linked, needs_index, rated_by_key
from penstock.engine.gain_loss import Factors, factors
from penstock.engine.ranking_codes import Kind, Prices

_IN_ROWS = {"rows": 1, "rows_per_key": PER_KEY}


def allocate(
    problem: Problem,
    ranking: Ranking,
    bands: Bands | None,
    *,
    slots: int,
    groups: int,
    fresh: int = 64,
    straggling: bool = False,
    width: int = 1,
    facts: CompiledFacts | None = None,
) -> tuple[dict[str, Any], Memory]:
    """Empty memory with room for `slots` tuples in `groups` classes; arrays that are not needed have length 1."""
    n, kind = problem.n_streams, ranking.kind
    levels = 2 if kind == Kind.GAIN_LOSS else 1
    tree = _trees(problem, ranking)
    if straggling and ranking.prices != Prices.PATTERNS:
        bands = None  # late tuples would have far to go
    leaves, inner = shape(groups if bands is None else len(bands.price))
    nodes = (max(tree) + 1) * (inner + BLOCK - 1)  # of each level
    massed = needs_index(problem, ranking) and not all_linked(problem) and (ranking.prices == Prices.MATCHES or _grows(problem, ranking))
    bounding = massed and kind in (Kind.STAY, Kind.SCORE_PLUS_PRICE)
    kinetic = kind in (Kind.LIFE, Kind.STAY) and not bounding
    planes = max(tree) + 1 if kinetic or bounding else levels
    ranked = kind > Kind.DRAW and not (ranking.prices == Prices.PATTERNS and n <= FEW_STREAMS)
    learns = ranking.prices == Prices.CHANCES
    entries = planes * leaves + levels * nodes
    linked = LinkTables.of(problem, width) if needs_index(problem, ranking) and facts is None else None
    indexed = linked is not None or facts is not None
    sizes = {
        "lanes": n,
        "slot_prices": problem.budget.caps.shape[1],
        "pools": problem.budget.caps.shape[1],
        "slots": slots,
        "ranks": slots if kind >= Kind.SCORE or not problem.steady else 1,
        "sums": slots if kind == Kind.GAIN_LOSS else 1,
        "marks": slots if kind in (Kind.ARRIVAL, Kind.DRAW) or ranking.prices == Prices.PATTERNS else 1,
        "weights": slots if problem.budget.in_bytes else 1,
        "places": slots if straggling else 1,
        "stragglers": slots if straggling else 1,
        "draws": slots * n if kind == Kind.DRAW else 1,
        "groups": groups,
        "bands": 1 if bands is None else len(bands.price),
        "ladder": 1 if bands is None else slots,
        "floors": groups if kind == Kind.GAIN_LOSS else 1,
        "table": 1 << max(4, (groups * 3 // 2).bit_length()),
        "stale_queue": 64 + groups // 16 if ranking.prices in (Prices.MATCHES, Prices.TUPLES) or indexed else 1,
        "holders": entries if ranked else 1,
        "keys": entries if ranked and not kinetic else 1,
        "worths": entries if kinetic or bounding else 1,
        "moments": entries if kinetic or bounding else 1,
        "leasts": entries if bounding else 1,
        "owns": nodes if kinetic else 1,
        "dues": nodes if kinetic else 1,
        "stack": 128,
        "fresh": fresh,
        "arrived": fresh if ranking.prices == Prices.PATTERNS else 1,
        "offers": PATIENCE,
        "waiting": 4 * PATIENCE * n,
        "clues": groups * 2 * n if learns else 1,
        "waits": groups if learns else 1,
        "queues": 2 * TIMERS,
        "chances": n * n * COUNTS * GAPS * GAPS if learns else 1,
        "spans": n,
        "paths": PATH * n,
        "met": slots if problem.has_matches else 1,
        "parting": slots if problem.has_matches else 1,
        "tallies": groups if problem.counts_keys else 1,
    }
    sizes |= dict.fromkeys(FACT_ARRAYS, 1) | index_sizes(linked, n, slots, fresh, counted=ranking.prices != Prices.NONE)
    sizes["raised"] = slots if indexed and kind == Kind.GAIN_LOSS else 1
    if facts is not None:
        sizes |= {"strands": slots * facts.reach, "ends": slots, "accesses": n * n, "counts": slots * n}
    arrays = in_one_block(sizes)
    for name in ("table", "floors", "holders", "queues"):
        arrays[name][:] = -1
    for name in ("owns", "dues", "moments"):
        arrays[name][:] = NEVER
    arrays["keys"][:] = LAST
    arrays["worths"][:] = np.inf
    arrays["slots"]["after"] = np.arange(1, slots + 1)
    arrays["groups"]["head"] = np.arange(1, groups + 1)
    for name in ("tail", "top", "kin"):
        arrays["groups"][name] = -1
    lanes = arrays["lanes"]
    lanes["seen"] = lanes["ceiling"] = -NEVER
    lanes["oldest"] = lanes["newest"] = -1
    lanes["length"] = [w.length for w in problem.windows]
    lanes["in_rows"] = [_IN_ROWS.get(w.kind, 0) for w in problem.windows]
    lanes["lateness"] = problem.lateness
    lanes["most"] = problem.most_outputs
    lanes["factor"] = 1.0
    lanes["pool"] = problem.budget.pool
    lanes["tree"] = tree
    lanes["leads"] = [number not in tree[:stream] for stream, number in enumerate(tree)]
    by = factors(problem) if kind == Kind.GAIN_LOSS else Factors(1.0, np.ones(n), np.ones(n))
    lanes["gain"], lanes["loss"] = by.gain, by.loss
    slot_prices = arrays["slot_prices"]
    slot_prices["used"] = np.inf
    slot_prices["first"] = slot_prices["last"] = slot_prices["changed"] = -NEVER
    for which in range(len(slot_prices)):
        slot_prices["leader"][which] = problem.leader(which)
    if bands is not None:
        arrays["bands"]["price"], arrays["bands"]["stream"] = bands.price, bands.stream
        arrays["bands"]["head"] = arrays["bands"]["tail"] = -1
    arrays["waits"]["step"] = -1
    memory = attach(arrays)
    if learns:
        scale = Scale.of(problem)
        arrays["spans"][:] = scale.spans
        memory.shift, memory.reach, memory.pace = scale.shift, scale.reach, scale.pace
    memory.banded, memory.ranked = bands is not None, ranked
    memory.now = memory.settled = -NEVER
    memory.levels, memory.planes, memory.trees, memory.leaves, memory.inner = levels, planes, max(tree) + 1, leaves, inner
    memory.straggling = straggling
    memory.streams, memory.kind, memory.prices = n, kind, ranking.prices
    memory.first_score, memory.tied = ranking.first_score, ranking.ties
    memory.objective = 0 if problem.steady else problem.objective.code
    memory.inplace = problem.model == "inplace"
    memory.by_stream = problem.clock == "streams"
    memory.less = problem.switch("life-remaining") == "less-one"
    memory.newcomer_safe = ranking.spares
    memory.spared = NEVER
    memory.full = (1 << n) - 1 if n < 63 else 0
    memory.patterns = 1 << (n - 1) if ranking.prices == Prices.PATTERNS else 1
    if ranking.prices == Prices.PATTERNS:
        memory.pattern_first = problem.switch("ep-ties") == "smallest-pattern"
        memory.finishes = problem.switch("ep-finishes") == "all"
        memory.youngest = problem.switch("ep-drops") == "newest"
    memory.lasting = ranking.prices == Prices.OUTPUTS and problem.switch("output-counts") == "ever"
    memory.mn_of_memory = ranking.prices == Prices.MATCHES and problem.switch("mn") == "memory"
    memory.limited = problem.has_matches
    memory.weighted = problem.budget.in_bytes
    memory.unit_score = by.start
    memory.beta = np.nan if problem.beta is None else problem.beta
    memory.match_weight = problem.weights[1]
    memory.value_of_one = problem.objective.of([1.0] * n)
    memory.start = problem.start
    if linked is not None:
        fill(arrays, memory, linked, slots)
        memory.indexed = 2 if problem.predicate.is_equality else 1
        memory.keyed = ranking.prices == Prices.RATES and rated_by_key(problem)
        memory.growing = _grows(problem, ranking)
        memory.paired = ranking.prices == Prices.MATCHES or memory.growing
        memory.massed, memory.bounding = massed, bounding
        memory.worthy = not problem.steady and n == 2 and kind in (Kind.PRICE, Kind.LIFE, Kind.STAY)
    if facts is not None:
        memory.massed, memory.bounding = massed, bounding
        facts.describe(problem, ranking, memory, arrays)
    return arrays, memory


def pattern_bands(streams: int) -> Bands:
    """New tables of existence patterns: a band per stream and pattern. What has met all its partners is worth less than nothing."""
    price = np.zeros((streams, 1 << (streams - 1)))
    price[:, -1] = -1.0
    stream = np.repeat(np.arange(streams), price.shape[1])
    return Bands(np.empty((0, streams), np.int64), price.reshape(-1), stream)


def _grows(problem: Problem, ranking: Ranking) -> bool:
    """Whether each row brings rates, of its key or of what it matches; else prices are known beforehand, row by row."""
    return ranking.prices == Prices.RATES and (bool(problem.through) or rated_by_key(problem) or problem.stats not in ("whole", "given"))


def _trees(problem: Problem, ranking: Ranking) -> list[int]:
    """The tournament of each stream: one per pool, unless its streams lose at different rates, count time or are priced otherwise."""
    found: dict[tuple[int, float, int], int] = {}
    out, n = [], problem.n_streams
    apart = ranking.prices != Prices.NONE and not all_linked(problem)  # the prices of a stream have a factor of their own
    for stream, window in enumerate(problem.windows):
        loses = 0.0
        if ranking.kind == Kind.GAIN_LOSS and problem.beta is None:
            loses = float(window.length) if window.kind != "schedule" else -1.0 - stream
        clocks = {"rows": stream, "rows_per_key": n} if ranking.kind in (Kind.LIFE, Kind.STAY) else {}
        clock = stream if apart else clocks.get(window.kind, -1)  # where each key has a clock, that of the stream stands still
        out.append(found.setdefault((int(problem.budget.pool[stream]), loses, clock), len(found)))
    return out
