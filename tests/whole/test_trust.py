"""Files that somebody else may have written: nothing in them runs unless the user says so."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import penstock as ps
from engines import running_engine
from held_shards import Held, a_batch, plan
from penstock.core import compiled
from penstock.core.compiling.owned_folder import own_folder
from penstock.core.problem import Problem
from penstock.shard.shard import Shard
from penstock.shard.state import local_copy as local
from penstock.shard.state.state_rows import unzipped, zipped
from plays import each_form

TYPED = pytest.importorskip("pyspark.sql.types")

from penstock.spark.settle.trusted import objective_of, schema_of  # noqa: E402
from shards import plan_of  # noqa: E402


class Trap:
    """A pickle of it makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return (Path.touch, (Path(self.path),))


@pytest.fixture
def trap(tmp_path) -> Any:
    """A crafted pickle, and where it leaves its trace: that it works is seen first."""
    path = tmp_path / "ran"
    raw = pickle.dumps(Trap(path), protocol=5)
    pickle.loads(raw)
    assert path.exists()
    path.unlink()
    yield raw
    assert not path.exists()


def an_engine(policy: Any = "prob", *, stepwise: bool = True) -> Any:
    problem = Problem.of(("l", "r"), window=20, memory=5, stats="decayed")
    return running_engine(problem, policy, stepwise=stepwise)


@each_form
def test_a_crafted_snapshot_does_not_run(trap, stepwise):
    with pytest.raises(ps.PenstockError, match="pickle of release 0.1.0" if stepwise else "must be a snapshot of this engine"):
        an_engine(stepwise=stepwise).restore(trap)


class Own(ps.Policy):
    name = "own"

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def score(self, view: ps.View) -> Any:
        for row in view.row.tolist():
            self.seen[row] = self.seen.get(row, 0) + 1
        return -np.array([self.seen[row] for row in view.row.tolist()], dtype=float)


def test_a_state_of_0_1_0_is_read_if_trusted(tmp_path):
    """As release 0.1.0 wrote it: a pickle of the engine's attributes, the statistics and the attributes of the policy."""
    for policy in (Own(), "elife", "rand"):  # attributes of a user's own, prices of slots, a generator
        held = Held()
        own = plan(15, policy, route="key")
        own.options["objective"] = sum  # a function: the engine is the plain one
        random = Random(5)
        for number in range(4):
            held.play(own, a_batch(random, number * 25, 25), None)
        engine = held.vault(own).open(None).engine
        mine = {name: value for name, value in vars(engine).items() if name not in ("problem", "statistics", "keep", "policy")}
        old = pickle.dumps((mine, engine.statistics.snapshot(), vars(engine.policy)))
        state = unzipped(b"".join(held.cells["snapshot", number][0] for number in range(held.head[2])))
        held.cells["snapshot", 0] = (zipped(state | {"engine": np.frombuffer(old, np.uint8)}),)
        expected = engine.snapshot()
        with pytest.raises(ps.PenstockError, match=r"pass trust=True to ps\.join"):
            held.vault(own).open(None)
        trusted = plan(15, policy, trust=True)
        trusted.options["objective"] = sum
        assert held.vault(trusted).open(None).engine.snapshot() == expected
        held.play(trusted, a_batch(random, 100, 25), None)
        held.vault(own).open(None)  # what a run has written is data


def test_a_crafted_state_does_not_run(trap):
    for policy, cells in (("prob", ("engine", "shadow")), (Own(), ("engine", "shadow"))):
        held, own, random = Held(), plan(5, policy), Random(5)
        for number in range(4):
            shard, _ = held.play(own, a_batch(random, number * 25, 25), None)
        assert shard.meter.shadow is not None
        from penstock.shard.state.state_rows import _chunks

        good = _chunks(shard)[0]
        for cell in cells:
            held.cells["snapshot", 0] = (zipped(unzipped(good) | {cell: np.frombuffer(trap, np.uint8)}),)
            held.head = (*held.head[:2], 1, 0, 0, *held.head[5:])
            with pytest.raises(ps.PenstockError, match=r"must be a snapshot|pickle of release 0\.1\.0"):
                held.vault(own).open(None)
        for crafted in (trap, b"\x93NUMPY" + trap):
            held.cells["snapshot", 0] = (crafted,)
            with pytest.raises(ValueError, match=r".*"):
                held.vault(own).open(None)


def test_a_crafted_local_copy_does_not_run(trap, tmp_path):
    """The state has the truth: whoever finds a strange copy rebuilds."""
    held, own, random = Held(), plan(15, "prob"), Random(5)
    shard, _ = held.play(own, a_batch(random, 0, 25), tmp_path / "copy")
    (copy,) = (tmp_path / "copy").glob("shard-*")
    assert local.pick_up(tmp_path / "copy", held.head[0], own, 0) is not None
    copy.write_bytes(trap)
    assert local.pick_up(tmp_path / "copy", held.head[0], own, 0) is None
    assert held.vault(own).open(tmp_path / "copy").engine.snapshot() == shard.engine.snapshot()


@pytest.mark.parametrize("policy", [*ps.POLICIES, Own()], ids=lambda policy: getattr(policy, "name", policy))
def test_a_local_copy_is_the_shard_whatever_the_policy(tmp_path, policy):
    held, own, random = Held(), plan(15, policy), Random(5)
    for number in range(6):
        shard, _ = held.play(own, a_batch(random, number * 25, 25), tmp_path)
    found = local.pick_up(tmp_path, held.head[0], own, 0)
    assert found is not None and found.engine.snapshot() == shard.engine.snapshot()
    assert found.book.names == shard.book.names and found.files == shard.files


def test_a_local_folder_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    folder = local.folder_of("query", "penstock", 0)
    assert folder is not None
    mine = tmp_path / folder.relative_to(tmp_path).parts[0]
    assert mine.stat().st_mode & 0o777 == 0o700
    mine.chmod(0o777)
    assert local.folder_of("query", "penstock", 0) is None
    mine.chmod(0o700)
    tmp_path.chmod(0o777)  # whoever may rename it could put another in its place
    assert local.folder_of("query", "penstock", 0) is None
    tmp_path.chmod(0o1777)
    assert local.folder_of("query", "penstock", 0) == folder


def test_a_folder_of_another_user_is_not_ones_own(tmp_path, monkeypatch):
    assert own_folder(tmp_path / "mine") == tmp_path / "mine"
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert own_folder(tmp_path / "mine") is None


def test_a_folder_deep_inside_that_others_may_write_to_is_noticed(tmp_path):
    deep = tmp_path / "mine" / "engine" / "compiled" / "more"
    deep.mkdir(parents=True)
    for folder in (tmp_path / "mine", *deep.relative_to(tmp_path / "mine").parents, deep):
        (tmp_path / "mine" / folder).chmod(0o700)
    assert own_folder(tmp_path / "mine") == tmp_path / "mine"
    for folder in (deep, deep.parent):
        folder.chmod(0o777)
        assert own_folder(tmp_path / "mine") is None
        folder.chmod(0o700)
    assert own_folder(tmp_path / "mine") is not None
    (deep / "link").symlink_to(tmp_path)  # what is behind it is not looked at
    assert own_folder(tmp_path / "mine") is None


def test_a_folder_that_goes_meanwhile_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "mine" / "engine" / "compiled").mkdir(parents=True)
    (tmp_path / "mine").chmod(0o700)
    monkeypatch.setattr(os, "walk", lambda path: [(str(path), ["engine", "gone"], []), (f"{path}/engine", ["gone"], [])])
    assert own_folder(tmp_path / "mine") == tmp_path / "mine"


def test_kernels_are_kept_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    asked: list[Path] = []

    def nobody(path: Path) -> None:
        asked.append(path)

    compiled._cache_folder.cache_clear()
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(compiled, "own_folder", nobody)
        monkeypatch.setattr(compiled.config, "CACHE_DIR", str(tmp_path / "said"))
        assert compiled._cache_folder() is None
        package = Path(compiled.__file__).parent.parent
        temporary = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
        assert [path.parent for path in asked] == [tmp_path / "said", package / "__pycache__", tmp_path / "penstock", temporary]
    finally:
        compiled._cache_folder.cache_clear()


@pytest.mark.jit_only
def test_a_crafted_kernel_does_not_run(trap, tmp_path):
    """A package that anybody may write to: its folder of kernels is not read, and another is used."""
    package = Path(compiled.__file__).parent.parent
    shutil.copytree(package, tmp_path / "src" / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src" / "penstock" / "__pycache__").mkdir()
    code = "from penstock.core import compiled; print(compiled._cache_folder())"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def folder() -> Path:
        said = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        return Path(said.stdout.strip())

    usual = folder()
    assert usual.parent == tmp_path / "src" / "penstock" / "__pycache__"
    usual.chmod(0o777)
    assert folder().parent == tmp_path / "cache" / "penstock"
    usual.chmod(0o700)
    usual.parent.chmod(0o777)
    assert folder().parent == tmp_path / "cache" / "penstock"


@pytest.mark.parametrize("crafted", ({"stream": 2}, {"stream": -1}, {"band": 99}, {"count.budget_step": 7}, {"key": None}))
def test_numbers_that_cannot_be_in_a_snapshot_are_refused(crafted):
    """Compiled code would take them for places in its arrays."""
    held, own, random = Held(), plan(15, "ep"), Random(5)
    shard, _ = held.play(own, a_batch(random, 0, 25), None)
    state = unzipped(shard.engine.snapshot())
    for name, value in crafted.items():
        column = state[f"memory.{name}"]
        state[f"memory.{name}"] = column[:-1] if value is None else np.full_like(column, value)
    with pytest.raises(ps.PenstockError, match="with numbers that cannot be in one"):
        Shard(own).engine.restore(zipped(state))
    Shard(own).engine.restore(shard.engine.snapshot())


# --------------------------------------------------------------------------------------------------------- own policies


def test_a_policy_that_keeps_what_is_no_data_is_told_which_attribute_it_is():
    class Model(ps.Policy):
        name = "model"

        def __init__(self) -> None:
            self.model = {"inner": object()}

        def score(self, view: ps.View) -> Any:
            return view.row

    with pytest.raises(ps.PenstockError, match=r"attribute 'model' of policy 'model'\['inner'\] must be data.*snapshot\(\)"):
        an_engine(Model()).snapshot()


def test_a_policy_may_say_itself_what_is_kept():
    class Model(ps.Policy):
        name = "model"

        def __init__(self) -> None:
            self.model, self.count = object(), 0

        def score(self, view: ps.View) -> Any:
            self.count += 1
            return view.row

        def snapshot(self) -> dict[str, Any]:
            return {"count": self.count}

        def restore(self, state: dict[str, Any]) -> None:
            self.count = state["count"] + 100

    one, other = an_engine(Model()), an_engine(Model())
    one.policy.count = 7
    other.restore(one.snapshot())
    assert other.policy.count == 107


def test_an_object_with_a_score_keeps_its_attributes():
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        def score(self, view: ps.View) -> Any:
            self.count += 1
            return view.row

    one, other = Counting(), Counting()
    one.count = 7
    engine = an_engine(other)
    engine.restore(an_engine(one).snapshot())
    assert other.count == 7


# ------------------------------------------------------------------------------------------------------------- archives


def test_a_crafted_objective_does_not_run(trap):
    crafted = plan_of((8, 8), objective="pickle:" + base64.b64encode(trap).decode())
    with pytest.raises(ps.PenstockError, match=r"objective must be given again .* ps\.settle\(\.\.\., objective=f\).*trust=True"):
        objective_of(crafted, None, trust=False)
    assert objective_of(crafted, max, trust=True).of([1.0, 3.0]) == 3.0
    assert objective_of(crafted, None, trust=False, counting=True) is None


def test_a_function_is_given_again():
    mine = plan_of((8, 8), objective="a function")
    with pytest.raises(ps.PenstockError, match=r"objective must be given again") as told:
        objective_of(mine, None, trust=True)
    assert "0.1.0" not in str(told.value)
    assert objective_of(mine, max, trust=False).of([1.0, 3.0]) == 3.0
    with pytest.raises(ps.PenstockError, match=r"it was min, which is known, got <built-in function max>"):
        objective_of(plan_of((8, 8)), max, trust=False)
    with pytest.raises(ps.PenstockError, match=r"it was a function, got 'max'"):
        objective_of(mine, "max", trust=False)


def test_a_crafted_type_does_not_run(trap):
    """Spark reads a type of Python's own from a pickle in the schema."""
    udt = {"type": "udt", "pyClass": "builtins.Nobody", "serializedClass": base64.b64encode(trap).decode(), "sqlType": "long"}
    field = {"name": "k", "type": {"type": "array", "elementType": udt, "containsNull": True}, "nullable": True, "metadata": {}}
    crafted = plan_of((8, 8), schema=json.dumps({"type": "struct", "fields": [field]}))
    with pytest.raises(ps.PenstockError, match="user-defined type"):
        schema_of(crafted, trust=False)


def test_sql_in_the_metadata_of_a_schema_is_left_out():
    """Spark evaluates the default of a column that a file lacks, whatever SQL it is."""
    default = dict.fromkeys(("EXISTS_DEFAULT", "CURRENT_DEFAULT"), "reflect('java.lang.System', 'exit', '1')")

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": False, "metadata": default}

    inner = {"type": "struct", "fields": [field("x", "long")]}
    array = {"type": "array", "elementType": inner, "containsNull": False}
    table = {"type": "map", "keyType": inner, "valueType": array, "valueContainsNull": False}
    kinds = {"k": "string", "a_v": inner, "b_v": array, "m": table}
    crafted = plan_of((8, 8), schema=json.dumps({"type": "struct", "fields": [field(*one) for one in kinds.items()]}))
    for trust in (False, True):
        found = schema_of(crafted, trust=trust)
        assert "DEFAULT" not in found.json() and found.names == list(kinds)
        assert found.simpleString() == TYPED.StructType.fromJson(json.loads(crafted.schema)).simpleString()
        assert not any(own.nullable for own in found) and not found["b_v"].dataType.containsNull


def test_a_collation_of_a_schema_stays():
    text = {"name": "k", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"k": "spark.UTF8_LCASE"}, "comment": "x"}}
    found = schema_of(plan_of((8, 8), schema=json.dumps({"type": "struct", "fields": [text]})), trust=False)
    assert found["k"].dataType == TYPED.StringType("UTF8_LCASE") and found["k"].metadata == {}
