"""What a state says where it was made with other settings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import penstock as ps
from held_shards import plan
from penstock.policies.table import POLICIES
from penstock.shard.shard import Shard
from penstock.shard.shard_plan import ShardPlan
from penstock.shard.state.state_rows import ShardState, whole
from penstock.shard.state.state_settings import check_settings, settings

REMEDIES = {
    "policy": ({"policy": "fifo"}, "policy was prob, now it is fifo. Use a new checkpoint"),
    "shards": (
        {"shards": (0, 1, 2)},
        "shards was 2, now it is 3. Use a new checkpoint, or for another number of shards `penstock reshard`",
    ),
    "both": (
        {"policy": "fifo", "shards": (0, 1, 2)},
        "policy was prob, now it is fifo; shards was 2, now it is 3. Use a new checkpoint",
    ),
}


@pytest.mark.parametrize(("change", "said"), REMEDIES.values(), ids=REMEDIES)
def test_a_refusal_names_reshard_only_where_that_helps(change, said):
    was = {"policy": "prob", "shards": (0, 1)}
    with pytest.raises(ps.PenstockError) as refused:
        check_settings(settings(plan(15, **was)), settings(plan(15, **(was | change))))
    assert str(refused.value) == f"the checkpoint was made with other settings: {said}"


def test_a_state_keeps_its_policy_where_nobody_names_one():
    head, cells = whole(Shard(plan(15, policy="fifo")))
    chosen = replace(plan(15, policy="learned"), auto=True)

    class Kept:
        def iterator(self):
            return ((at, (cell,)) for at, cell in cells.items())

    shard = ShardState(chosen, 0, lambda: head, lambda _: None, Kept()).open(None)
    assert list(POLICIES)[shard.policy] == "fifo" == settings(shard.plan)["fixed"]["policy"]
    strange = json.dumps(json.loads(head[1]) | {"fixed": json.loads(head[1])["fixed"] | {"policy": "mine"}})
    with pytest.raises(ps.PenstockError, match="policy was mine, now it is learned"):
        ShardState(chosen, 0, lambda: (head[0], strange, *head[2:]), lambda _: None, Kept()).open(None)


def of_ep(**switches: str) -> ShardPlan:
    base = plan(15, policy="ep")
    return replace(base, options=base.options | {"switches": switches})


@pytest.mark.parametrize("asked", [{}, {"ep-finishes": "all"}])
def test_an_older_state_of_ep_goes_on_as_it_began(asked):
    """Before there was a choice only the last member of an output was finished, and heads do not say so."""
    head, cells = whole(Shard(of_ep(**{"ep-finishes": "last"})))
    facts = json.loads(head[1])
    del facts["fixed"]["switches"]
    older = (head[0], json.dumps(facts), *head[2:])

    class Kept:
        def iterator(self):
            return ((at, (cell,)) for at, cell in cells.items())

    state = ShardState(of_ep(**asked), 0, lambda: older, lambda _: None, Kept())
    if asked:
        with pytest.raises(ps.PenstockError, match=r"switches was \{'ep-finishes': 'last'\}, now it is \{'ep-finishes': 'all'\}"):
            state.open(None)
    else:
        assert state.open(None).problem.switch("ep-finishes") == "last"
    assert settings(of_ep())["fixed"]["switches"] == {"ep-finishes": "all"}
