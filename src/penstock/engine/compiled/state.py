"""The state of the compiled engine: one record of numbers and addresses, and views of the arrays behind the addresses.

Compiled functions take this one record, by reference. Handing them some twenty arrays instead costs a kilobyte of arguments
per call and made the loop forty times slower (docs/decisions/0003). `allocate` makes the arrays; who keeps them keeps the record alive.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from llvmlite import ir as untyped_ir
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.core import config as untyped_config
from numba.extending import intrinsic
from numba.np import arrayobj as untyped_arrayobj

from penstock.engine.fact_arrays import FACT_ARRAYS, FACT_CHAINS, FACT_COUNTS, FACT_RULES

cgutils: Any = untyped_cgutils
ir: Any = untyped_ir
arrayobj: Any = untyped_arrayobj
config: Any = untyped_config

Memory = Any
"""A record of HANDLE, as compiled and plain functions see it."""

LANE = np.dtype(  # a stream
    [
        ("seen", "i8"),  # largest time
        ("arrivals", "i8"),  # rows so far
        ("clock", "i8"),  # what scores compare expiries with: now, or the rows so far; 0 where each key has a clock
        ("held", "i8"),  # tuples in memory
        ("ceiling", "i8"),  # largest expiry in the chain of arrivals
        ("drawable", "i8"),  # rand: tuples in `draws`
        ("lost_high", "i8"),  # dgl: what all tuples have lost so far (units.py)
        ("lost_mid", "i8"),
        ("lost_low", "i8"),
        ("gain", "f8"),  # dgl: the factors of gain_loss.py
        ("loss", "f8"),
        ("length", "f8"),  # of the window
        ("lateness", "i8"),
        ("pool", "i8"),
        ("in_rows", "i8"),  # the window counts rows: 1 those of the stream, 2 (PER_KEY) those of each key
        ("most", "i8"),  # the outputs after which a tuple leaves (`matches`)
        ("tree", "i8"),  # its tournament
        ("leads", "i8"),  # the first stream of its tournament
        ("mass", "f8"),  # the tuples in memory that can match, or the decayed weight of arrivals, for streams that nothing links to it
        ("factor", "f8"),  # by these, what the price of each of its tuples is multiplied with
        ("patterns", "i8"),  # ep without a tournament: bit p is set while it holds tuples of pattern p
        ("oldest", "i4"),  # chain of arrivals
        ("newest", "i4"),
    ],
    align=True,
)
SLOT = np.dtype(  # a tuple
    [
        ("time", "i8"),
        ("row", "i8"),
        ("expiry", "i8"),
        ("group", "i4"),  # its class
        ("before", "i4"),  # chain of the class
        ("after", "i4"),
        ("older", "i4"),  # chain of arrivals
        ("newer", "i4"),
        ("stream", "i1"),
        ("ground", "i1"),  # dgl: at the floor; ep: finished
    ],
    align=True,
)
RANK = np.dtype(  # the rest of a tuple, where the policy or the objective needs it
    [
        ("importance", "f8"),
        ("score", "f8"),  # the part of the rank that orders a class
        ("child", "i4"),  # pairing heap
        ("sibling", "i4"),
        ("parent", "i4"),
    ],
    align=False,
)
SUM = np.dtype(  # dgl: the score of a tuple and what all have lost so far, in units (units.py); 0 at the floor
    [
        ("high", "i8"),
        ("mid", "i8"),
        ("low", "i8"),
    ],
    align=True,
)
GROUP = np.dtype(  # a class, the tuples of one stream with one key
    [
        ("key", "i8"),
        ("price", "f8"),
        ("bits", "i8"),  # in the class that the hash table knows: which streams hold the key
        ("head", "i4"),
        ("tail", "i4"),
        ("members", "i4"),
        ("top", "i4"),  # root of the heap; while the class has none: the last of its run
        ("kin", "i4"),  # ring of the classes with the same key
        ("stream", "i1"),
        ("stale", "i1"),  # its price is to be counted again
        ("gained", "i1"),  # dgl: in this instant
        ("heaped", "i1"),  # has a heap
    ],
    align=True,
)
BAND = np.dtype(  # the tuples of one stream with one price, where prices never change; ep: with one existence pattern
    [
        ("price", "f8"),
        ("made", "i8"),  # ep: outputs in which such tuples took part, one for each of them
        ("seen", "i8"),  # and how many such tuples have arrived
        ("head", "i4"),  # chain of the band, by time
        ("tail", "i4"),
        ("stream", "i4"),
    ],
    align=True,
)
STEP = np.dtype(  # of a tuple in the chain of its band
    [
        ("band", "i4"),
        ("before", "i4"),
        ("after", "i4"),
    ],
    align=True,
)
SLOT_PRICE = np.dtype(  # elife: the price of a slot in a pool
    [
        ("used", "f8"),  # what scores subtract, in the prices' own units
        ("margin", "f8"),  # running mean of p at the margin
        ("first", "i8"),  # clock of the first observation, of the last, and of the last change of `used`
        ("last", "i8"),
        ("changed", "i8"),
        ("leader", "i8"),  # the stream with the longest window: its clock and window are the pool's
    ],
    align=True,
)
WAIT = np.dtype(  # learned: a class that waits to be priced anew
    [
        ("event", "f8"),  # when its key came last, in coarse ticks
        ("instant", "i8"),  # and in which instant
        ("before", "i4"),  # queue
        ("after", "i4"),
        ("step", "i4"),  # which queue, -1 if none
    ],
    align=True,
)
LINK = np.dtype(  # a condition between the values of two streams (links.py)
    [
        ("test", "i8"),
        ("column", "i8"),  # the first of its columns
        ("width", "i8"),
        ("epsilon", "f8"),
    ],
    align=True,
)
ACCESS = np.dtype(  # how the tuples of one stream are found for a tuple of another: by ordered pair of streams
    [
        ("index", "i8"),  # -1 where nothing links the two
        ("first", "i8"),  # their links: from here
        ("last", "i8"),  # to before here
        ("hashes", "i8"),  # how many of them are equalities, which make the cell
        ("grid", "i8"),  # else the distance whose columns but the last make it; -1 if none
        ("ranged", "i8"),  # the link whose (last) column is the value; -1 if none
        ("column", "i8"),  # that column
        ("lower", "i8"),  # whether the tuple for which others are sought is of the lower stream
    ],
    align=True,
)
INDEX = np.dtype([("shelves", "i8"), ("free", "i8")], align=True)  # an ordered index: its shelves in use, its first free block
SHELF = np.dtype(  # a run of an index, in order: its first entry, and where it lies
    [
        ("cell", "i8"),
        ("value", "f8"),
        ("row", "i8"),
        ("block", "i4"),
        ("length", "i4"),
    ],
    align=True,
)
ENTRY = np.dtype([("cell", "i8"), ("value", "f8"), ("row", "i8"), ("slot", "i8")], align=True)  # of an index: a tuple
TALLY = np.dtype(  # of a class whose window holds the last rows of each key
    [
        ("arrivals", "i8"),  # rows with its stream and key since it is there: the clock of its tuples
        ("due", "i8"),  # how many of them are yet to come in this instant
    ],
    align=True,
)
ARRAYS: dict[str, Any] = {
    "lanes": LANE,  # by stream
    "slot_prices": SLOT_PRICE,  # by pool
    "pools": np.int64,  # rows or bytes in use, by pool
    "slots": SLOT,
    "ranks": RANK,  # by slot
    "sums": SUM,  # by slot
    "marks": np.int64,  # by slot; fifo: the instant of arrival; rand: the position in `draws`; ep: the row that finished it, or 0
    "weights": np.int64,  # by slot: bytes
    "places": np.int32,  # by slot: its position in `stragglers`, -1 if none
    "stragglers": np.int32,  # heap by expiry of tuples that are out of order
    "draws": np.int32,  # rand: live slots, densely, by stream
    "groups": GROUP,
    "bands": BAND,
    "ladder": STEP,  # by slot
    "floors": np.int32,  # dgl, by class: root of the heap of tuples at the floor
    "table": np.int32,  # hash table of keys: one class of the ring, -1 where empty
    "stale_queue": np.int32,  # classes whose price is stale
    "holders": np.int32,  # by entry of a tournament: the class, -1 if nobody plays; in a leaf, the number of the tournament
    "keys": np.int64,  # by entry: what classes are compared by,
    "worths": np.float64,  # or in a kinetic tournament: price
    "moments": np.int64,  # times life, until this expiry of the first tuple
    "leasts": np.float64,  # or in one that is searched (bounds.py), where the key is a time: the score without the price
    "owns": np.int64,  # by inner node: when an entry below it may overtake its winner,
    "dues": np.int64,  # or when anything below it must be looked at again
    "stack": np.int32,
    "fresh": np.int32,  # slots of this instant's arrivals, -1 for those turned away
    "arrived": np.int32,  # ep: the bands of this instant's arrivals
    "offers": np.float64,  # prices of this instant's arrivals, where they are few
    "waiting": np.int32,  # classes that are new in this instant, and not yet in the tournament
    "clues": np.float64,  # learned, by class and stream: the count of its key, then by class and stream when that came last
    "waits": WAIT,  # by class
    "queues": np.int32,  # by step of gaps: the first and the last class that waits
    "chances": np.float64,  # by pair of streams and state (chances.py)
    "spans": np.float64,  # by stream: how long a tuple stays at most, in coarse ticks
    "paths": np.float64,  # scratch of chances.py
    "met": np.int64,  # by slot, with `matches`: the outputs that the tuple took part in
    "parting": np.int32,  # slots of tuples that are done in this instant
    "links": LINK,
    "accesses": ACCESS,
    "indexes": INDEX,
    "shelves": SHELF,  # by index
    "entries": ENTRY,  # by block of an index
    "values": np.int64,  # by slot, then by arrival of this instant: what links compare, whole numbers or the bits of floating point
    "found": np.int64,  # scratch: the matches of a tuple
    "counts": np.float64,  # by slot and stream: the matches there, or the rate at which they come
    "raised": np.int32,  # dgl by links: slots of those that match an arrival of this instant
    "tallies": TALLY,  # by class, with `rows_per_key`
} | FACT_ARRAYS
RULES = (  # what a run is configured with; the codes are those of ranking.py and value.py
    "streams", "kind", "prices", "objective", "inplace", "by_stream", "less", "newcomer_safe", "mn_of_memory", "first_score",
    "weighted", "tied", "straggling", "banded", "levels", "planes", "trees", "leaves", "inner", "full", "patterns", "pattern_first",
    "youngest", "ranked", "shift", "finishes", "lasting", "limited", "indexed", "width", "paired", "growing", "keyed", "worthy",
    "room", "staged", "massed", "bounding", *FACT_RULES,
)  # fmt: skip
WEIGHTS = ("unit_score", "beta", "match_weight", "value_of_one", "start", "reach", "pace")
CHAINS = (
    "free",
    "live",
    "free_group",
    "live_groups",
    "n_stragglers",
    "n_stale",
    "tournaments_held",
    "patient",
    "n_waiting",
    "first_row",  # of this instant
    "spared",  # rows from here on do not compete yet
    "n_parting",
    "n_raised",
    *FACT_CHAINS,
)  # how tuples are linked
COUNTS = (
    "now", "instant", "next_row", "budget_step", "n_input", "n_output", "n_shed", "n_expired", "n_late", "peak", "steps", "gains",
    "random1", "random2", "origin", "moved", "dawn", "coarse", "attempts", "made", "renewed", "n_done",
    "whole", "examined", *FACT_COUNTS,
)  # fmt: skip
SUMS = ("value", "importance_seen", "importance_rest", "half_life")
RECORD = (*RULES, *CHAINS, *COUNTS, *WEIGHTS, *SUMS)
"""The numbers of a HANDLE, without the addresses."""
HANDLE = np.dtype(
    [(name, "i8") for name in RULES + CHAINS + COUNTS]
    + [(name, "f8") for name in WEIGHTS + SUMS]
    + [(f"{name}_{part}", "i8") for name in ARRAYS for part in ("at", "size")],
    align=True,
)


_LINE = 64  # bytes of a cache line


def in_one_block(sizes: dict[str, int]) -> dict[str, Any]:
    """Arrays of zeros, each at the start of a cache line, in one block: large enough for large pages where the machine has them."""
    begins, end = {}, 0
    for name, dtype in ARRAYS.items():
        begins[name] = end
        end += -(-sizes[name] * np.dtype(dtype).itemsize // _LINE) * _LINE
    block = np.zeros(end + _LINE, dtype=np.uint8)
    start = -block.ctypes.data % _LINE
    return {name: block[start + begins[name] :][: sizes[name] * np.dtype(dtype).itemsize].view(dtype) for name, dtype in ARRAYS.items()}


def attach(arrays: dict[str, Any]) -> Memory:
    """A record that points to these arrays."""
    record = np.zeros(1, dtype=HANDLE).view(np.recarray)[0]
    for name, array in arrays.items():
        record[f"{name}_at"] = array.ctypes.data
        record[f"{name}_size"] = len(array)
    return record


_views: dict[tuple[str, int, int], Any] = {}


def _viewer(name: str, dtype: Any) -> Any:
    """A function from a record to the array that it points to under `name`, for compiled and for plain code.

    Compiled, the array claims to have length 0: an index below 0, which would count from the end, then costs no instructions to rule
    out. The length is in the record, and is that of the array where indexes are checked (NUMBA_BOUNDSCHECK=1).
    """
    dtype = np.dtype(dtype)

    def plain(memory: Memory) -> Any:
        where = (name, int(memory[f"{name}_at"]), int(memory[f"{name}_size"]))
        if where not in _views:
            raw = (ctypes.c_char * (where[2] * dtype.itemsize)).from_address(where[1])
            view = np.frombuffer(raw, dtype=dtype)
            _views[where] = view.view(np.recarray) if dtype.names else view
        return _views[where]

    if config.DISABLE_JIT:
        return plain
    element = numba.from_dtype(dtype)
    array = types.Array(element, 1, "C")

    @intrinsic
    def compiled(typing_context: Any, record: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = context.get_value_type(types.int64)
            base = arguments[0]
            address = builder.load(cgutils.get_record_member(builder, base, record.offset(f"{name}_at"), word))
            out = arrayobj.make_array(array)(context, builder)
            width = context.get_constant(types.intp, dtype.itemsize)
            data = builder.inttoptr(address, context.get_data_type(element).as_pointer())
            if config.BOUNDSCHECK:
                length = builder.load(cgutils.get_record_member(builder, base, record.offset(f"{name}_size"), word))
            else:
                length = context.get_constant(types.intp, 0)
            arrayobj.populate_array(out, data=data, shape=[length], strides=[width], itemsize=width, meminfo=None)
            return out._getvalue()

        return array(record), generate

    return compiled


(
    lanes, slot_prices, pools, slots, ranks, sums, marks, weights, places, stragglers, draws, groups, bands, ladder, floors, table,
    stale_queue, holders, keys, worths, moments, leasts, owns, dues, stack, fresh, arrived, offers, waiting, clues, waits, queues,
    chances, spans, paths, met, parting, links, accesses, indexes, shelves, entries, values, found, counts, raised, tallies, cells,
    named, listed, fact_cells, fact_weights, endings, ties, own_links, hops, last_past, past, strands, ends,
) = (_viewer(name, dtype) for name, dtype in ARRAYS.items())  # fmt: skip


def _toucher(name: str, *, end: bool = False) -> Any:
    """A function that asks the processor to fetch one element of the array under `name`, which will soon be needed, and does not wait."""
    width = np.dtype(ARRAYS[name]).itemsize
    inside = width - 1 if end else 0

    def plain(memory: Memory, at: int) -> None:
        pass

    if config.DISABLE_JIT:
        return plain

    @intrinsic
    def compiled(typing_context: Any, record: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = context.get_value_type(types.int64)
            base = builder.load(cgutils.get_record_member(builder, arguments[0], record.offset(f"{name}_at"), word))
            index = context.cast(builder, arguments[1], at, types.int64)
            offset = builder.add(builder.mul(index, ir.Constant(word, width)), ir.Constant(word, inside))
            where = builder.inttoptr(builder.add(base, offset), cgutils.voidptr_t)
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
            fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(fetch, [where, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
            return context.get_dummy_value()

        return types.void(record, at), generate

    return compiled


touch_slot, touch_rank, touch_group, touch_key, touch_clue, touch_wait, touch_table, touch_holder = (
    _toucher(name) for name in ("slots", "ranks", "groups", "keys", "clues", "waits", "table", "holders")
)
touch_cell, touch_named, touch_listed, touch_strand = (_toucher(name) for name in ("cells", "named", "listed", "strands"))
touch_group_end = _toucher("groups", end=True)  # it may lie in the next cache line
