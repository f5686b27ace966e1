"""Where streams promise how many outputs a tuple takes part in (`matches`): those that are done part with memory."""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.engine.compiled.logs import Logs
from penstock.engine.compiled.memory import (
    unlink,
)
from penstock.engine.compiled.moves import forget, leave, part_if_linked
from penstock.engine.compiled.order.ranking import (
    PRICE,
    SCORE,
)
from penstock.engine.compiled.order.tournament import promote
from penstock.engine.compiled.state import (
    Memory,
    fresh,
    lanes,
    parting,
    pools,
    slots,
    weights,
)


@kernel
def part_with_done(memory: Memory, logs: Logs) -> None:
    """Let those go that have taken part in as many outputs as promised, by row, whoever has seen them do so."""
    _sort_parting(memory)
    for at in range(memory.n_parting):
        slot = int(parting(memory)[at])
        row = slots(memory)[slot].row
        if row >= memory.first_row:
            if fresh(memory)[row - memory.first_row] != slot:
                continue  # a window of rows has let it go already
            fresh(memory)[row - memory.first_row] = -2
        if row < memory.spared:
            leave(memory, slot)
        else:
            _leave_unseen(memory, slot)
        if logs.done.shape[1] > 0:
            logs.done[logs.lengths[5], 0] = row
            logs.done[logs.lengths[5], 1] = memory.instant
            logs.lengths[5] += 1
        memory.n_done += 1
    memory.n_parting = 0


@kernel
def _sort_parting(memory: Memory) -> None:
    """Put those that part in the order of rows (Shell's sort)."""
    gap = memory.n_parting // 2
    while gap > 0:
        for at in range(gap, memory.n_parting):
            slot = parting(memory)[at]
            place = at
            while place >= gap and slots(memory)[parting(memory)[place - gap]].row > slots(memory)[slot].row:
                parting(memory)[place] = parting(memory)[place - gap]
                place -= gap
            parting(memory)[place] = slot
        gap //= 2


@kernel
def _leave_unseen(memory: Memory, slot: int) -> None:
    """Remove an arrival that does not compete yet."""
    group = slots(memory)[slot].group
    pools(memory)[lanes(memory)[slots(memory)[slot].stream].pool] -= weights(memory)[slot] if memory.weighted else 1
    part_if_linked(memory, slot)
    unlink(memory, slot)
    if PRICE <= memory.kind < SCORE and not memory.banded:
        promote(memory, 0, group)
    forget(memory, group)
