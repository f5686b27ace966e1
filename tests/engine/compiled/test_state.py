"""The arrays of an engine, as compiled code sees them."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core import config

from penstock.engine.compiled.state import ARRAYS, attach, in_one_block, table

CHECKED = bool(config.BOUNDSCHECK) and not config.DISABLE_JIT


@pytest.mark.skipif(not CHECKED, reason="needs NUMBA_BOUNDSCHECK=1")
@pytest.mark.parametrize("index", (4, 1 << 40, -5))
def test_an_index_beyond_an_array_is_an_error_where_indexes_are_checked(index: int) -> None:
    arrays = in_one_block(dict.fromkeys(ARRAYS, 4))
    memory = attach(arrays)
    read = numba.njit(lambda memory, index: table(memory)[index])
    assert [read(memory, inside) for inside in (0, 3, -1)] == [0, 0, 0]
    with pytest.raises(IndexError, match="out of bounds"):
        read(memory, index)
    assert isinstance(arrays["table"], np.ndarray)  # and alive until here
