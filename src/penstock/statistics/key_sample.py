"""The sample of keys in which `learned` counts what keys do."""

from __future__ import annotations

from penstock.core.compiled import kernel
from penstock.engine.chance_steps import SAMPLE


def sample_mask(keys: int) -> int:
    """Which keys are counted of so many: those whose mixed number has none of these bits."""
    mask = 0
    while keys > SAMPLE * (mask + 1):
        mask = 2 * mask + 1
    return mask


@kernel
def is_sampled(key: int, mask: int) -> bool:
    """Whether a key, and not the lack of one, is in the sample."""
    mixed = ((key ^ (key >> 31)) & 0x7FFFFFFF) * 0x2545F491
    return bool((((mixed >> 12) & mask) | (key >> 63)) == 0)
