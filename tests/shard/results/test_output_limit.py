"""How many outputs a batch may make: a quota over its parts."""

from __future__ import annotations

import pytest

from penstock.core.errors import PenstockError
from penstock.shard.results.output_limit import Quota


def test_a_quota_counts_until_it_is_exceeded_and_names_the_batch_and_the_remedy():
    quota = Quota(10, batch=3, whose="shard 1 alone has")
    quota.take(4)
    quota.take(6)
    with pytest.raises(
        PenstockError, match=r"^max_output_per_batch must not .* it is 10, and shard 1 alone has made 11 outputs or more in batch 3"
    ):
        quota.take(1)
    with pytest.raises(PenstockError, match=r"in this batch query.*larger max_output_per_batch or with less input"):
        Quota(10).take(11)
    Quota(None).take(1 << 60)
