"""The payload of a shard against a plain dictionary of its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.shard import payload as module
from penstock.shard.cells import to_cell
from penstock.shard.payload import Block, Payload
from penstock.shard.row_bytes import row_bytes

STREAMS = 2


@st.composite
def histories(draw):
    """Batches of new rows (their gaps, and the stream of each), and for each batch a seed for who is asked for and who leaves."""
    gap = draw(st.sampled_from([1, 3, 10_000]))
    rows = st.lists(st.tuples(st.integers(1, gap), st.integers(0, STREAMS - 1)), max_size=40)
    return draw(st.lists(st.tuples(rows, st.integers(0, 2**32), st.floats(0, 1)), min_size=1, max_size=6))


def texts(rows):
    """What is known of these rows, longer for some than for others."""
    return [f"row {row}" * (row % 3) for row in rows]


def everyone(alive):
    """All rows of all streams."""
    return np.array([row for rows in alive.values() for row in rows], dtype=np.int64)


@given(histories(), st.booleans(), st.sampled_from([0, 1 << 30]), st.sampled_from([0, 300, 1 << 30]))
def test_rows_are_found_until_they_leave_and_blocks_hold_what_is_left(history, again, heavy, small):
    """Whether each row is told to have left once, or all that are not alive are told every time; however rows are fetched and held."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_HEAVY", heavy)
        patch.setattr(module, "_SMALL", small)
        _played(history, again)


def _played(history, again):
    payload, alive, written, next_row = Payload(), {stream: [] for stream in range(STREAMS)}, {}, 0
    for steps, seed, share in history:
        rng = np.random.default_rng(seed)
        for stream in range(STREAMS):
            own = [next_row + sum(gap for gap, _ in steps[: at + 1]) for at, (_, of) in enumerate(steps) if of == stream]
            payload.add(stream, np.array(own, dtype=np.int64), pa.table({"text": texts(own)}))
            alive[stream] += own
        next_row += sum(gap for gap, _ in steps)
        for stream, rows in alive.items():
            if rows:
                asked = rng.choice(rows, size=rng.integers(1, 2 * len(rows) + 1))
                found = payload.fetch(stream, asked, ["text"])
                assert found["text"].to_pylist() == texts(asked)
                assert payload.sizes(stream, asked).tolist() == row_bytes(found).tolist()
                assert payload.widest(stream) >= payload.sizes(stream, asked).max()
        known = everyone(alive)
        left = rng.permutation(known[rng.random(len(known)) < share])
        dead = [block.rows[~block.alive] for block in payload.blocks.values() if again]
        written |= payload.close(np.concatenate([left, *dead]))
        gone = set(left.tolist())
        alive = {stream: [row for row in rows if row not in gone] for stream, rows in alive.items()}
        held = {stream: [] for stream in range(STREAMS)}
        for block in payload.blocks.values():
            held[block.stream] += block.rows[block.alive].tolist()
            assert block.n_alive == np.count_nonzero(block.alive)
            assert 2 * block.n_alive >= len(block.rows)
        assert held == alive
    rebuilt = Payload()
    rebuilt.restore({number: cell for number, cell in written.items() if cell is not None}, everyone(alive))
    for stream, rows in alive.items():
        if rows:
            assert rebuilt.fetch(stream, np.array(rows), ["text"])["text"].to_pylist() == texts(rows)


def test_small_batches_share_a_block():
    """Of 50 batches of 10 KB in each stream a few blocks are left, and none is written again that is large."""
    payload, rows, written = Payload(), 0, []
    for _ in range(50):
        for stream in range(STREAMS):
            payload.add(stream, np.arange(rows, rows + 10), pa.table({"text": ["x" * 1000] * 10}))
            rows += 10
        written += [(number, len(cell)) for number, cell in payload.close(np.empty(0, np.int64)).items()]
    assert len(payload.blocks) == 4 and max(size for _, size in written) < module._SMALL + 2000
    assert sum(len(block.rows) for block in payload.blocks.values()) == rows


@pytest.mark.parametrize("limit", [0, 400, 10_000])
def test_blocks_are_rewritten_until_they_fit(limit):
    payload = Payload()
    payload.add(0, np.arange(100), pa.table({"text": texts(range(100))}))
    payload.close(np.empty(0, np.int64))
    before = payload.n_bytes
    changes = payload.close(np.arange(0, 40), limit)
    assert (payload.n_bytes < before) == (before > limit) == bool(changes)
    assert payload.fetch(0, np.arange(40, 100), ["text"])["text"].to_pylist() == texts(range(40, 100))


def test_a_damaged_block_is_noticed_and_one_of_an_earlier_release_is_read():
    block = Block.of(1, np.array([3, 5, 9]), pa.table({"v": [1, 2, 3]}))
    cell = block.pack()
    for at in range(len(cell)):
        hurt = bytearray(cell)
        hurt[at] ^= 1
        store = Payload()
        try:
            store.restore({0: bytes(hurt)}, np.array([3, 9]))
        except ps.PenstockError as error:
            assert "the state is damaged: block 0" in str(error)
        else:  # the mark of the checksum is hurt, and nothing else
            assert store.fetch(1, np.array([9, 3]), ["v"])["v"].to_pylist() == [3, 1]
            assert cell.index(module._SEAL) <= at < len(cell) - 4
    with_rows = block.table.append_column("row", pa.array(block.rows)).replace_schema_metadata({"stream": "1"})
    store = Payload()
    store.restore({4: to_cell(with_rows)}, np.array([5]))  # as 0.1.0 wrote it
    assert store.fetch(1, np.array([5]), ["v"])["v"].to_pylist() == [2] and store.next == 5


def test_blocks_of_sessions_in_different_time_zones_are_one_payload():
    """A restart may find another time zone in the session: the instants are the same."""
    payload = Payload()
    for number, zone in enumerate(("Europe/Berlin", "UTC")):
        payload.add(0, np.array([number]), pa.table({"ts": pa.array([number], pa.timestamp("us", zone))}))
    assert payload.fetch(0, np.array([1, 0]), ["ts"])["ts"].cast(pa.int64()).to_pylist() == [1, 0]
