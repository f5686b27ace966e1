"""A relation in DuckDB or PostgreSQL gives the same facts, row for row, as the table in memory; and what is said when it cannot."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock.relation.addresses import database_at
from penstock.relation.database import in_order
from penstock.relation.history import History
from penstock.relation.record import patiently, record
from postgres import LOCKED, Server, server

UTC = dt.UTC
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=UTC)
FACTS = pa.table(
    {
        "a": pa.array([3, 1, 2, 1], pa.int64()),
        "b": ["x", "it's", 'a "b"', None],
        "since": pa.array([None, NOON, NOON, NOON], pa.timestamp("us", "UTC")),
        "weight": [1.5, 2.0, None, 4.0],
        "Odd name": pa.array([1, 2, None, 4], pa.int32()),
    }
)
_TABLE = """CREATE TABLE "zone pairs" (a BIGINT, b TEXT, since TIMESTAMP WITH TIME ZONE, weight NUMERIC(10, 2), "Odd name" INTEGER)"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[Callable[..., None], Callable[[str], str]]:
    """How statements are run in a database, and what it calls its tables."""
    if request.param == "postgres":
        running: Server = request.getfixturevalue("postgres")
        running.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        return running.run, running.address

    def run(*statements: str) -> None:
        with duckdb.connect(str(tmp_path / "zones.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)

    return run, lambda what: f"duckdb:{tmp_path / 'zones.duckdb'}#{what}"


def rows(table: pa.Table) -> list[str]:
    """Statements that put a table's rows into the database."""
    shown = [
        ", ".join("NULL" if v is None else f"'{str(v).replace(chr(39), chr(39) * 2)}'" for v in row.values()) for row in table.to_pylist()
    ]
    return [f'INSERT INTO "zone pairs" VALUES ({text})' for text in shown]


def test_a_table_comes_back_as_it_is_in_memory(place):
    run, address = place
    run(_TABLE, *rows(FACTS))
    database = database_at(address('"zone pairs"'))
    expected = in_order(FACTS)
    found = database.read()
    assert found.cast(expected.schema).equals(expected) and found.schema.field("since").type == expected.schema.field("since").type
    assert database.schema().names == FACTS.column_names
    assert database.read(["b", "a"], ("a", pa.array([1, 7]))).to_pylist() == [{"a": 1, "b": "it's"}, {"a": 1, "b": None}]
    assert database.read(among=("b", pa.array(['a "b"', "x"])))["a"].to_pylist() == [2, 3]
    query = database_at(address("""SELECT a, b AS "B", weight * 2 AS w FROM "zone pairs" WHERE b <> 'x' -- three rows"""))
    with pytest.raises(ps.PenstockError, match="must have the column 'b', it has: a, B, w"):
        query.read(["b"])
    assert query.read().to_pylist() == [{"a": 1, "B": "it's", "w": 4.0}, {"a": 2, "B": 'a "b"', "w": None}]
    assert not query.missing_indexes([("a",)])


def test_times_at_infinity_and_types_that_arrow_lacks(place):
    run, address = place
    run("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE t (a UUID, b NUMERIC(20, 3), c TIMESTAMP, d TIMESTAMP, e mood, f INTERVAL)")
    run(*["INSERT INTO t VALUES ('9cceaee7-c544-4623-b02a-6da473ac96e7', 1.25, '-infinity', 'infinity', 'ok', '1 day')"] * 2)
    found = database_at(address("t")).read(among=("e", pa.array(["ok"]))).to_pylist()[1]
    assert (found["a"], float(found["b"]), found["e"]) == ("9cceaee7-c544-4623-b02a-6da473ac96e7", 1.25, "ok")
    assert (found["c"], found["d"]) == (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))


def test_indexes_that_are_missing_are_named_and_created(place):
    run, address = place
    run(_TABLE, 'CREATE INDEX mine ON "zone pairs" (b, since, a)')
    database = database_at(address('"zone pairs"'))
    missing = database.missing_indexes([("a", "since"), ("b", "since"), ("Odd name",)])
    assert missing == [("a", "since"), ("Odd name",)]
    database.create([database.index_statement(names) for names in missing])
    assert database.missing_indexes(missing) == []


def test_a_history_of_snapshots_is_the_same_wherever_the_table_lives(place, tmp_path):
    run, address = place
    moments = [FACTS.slice(0, 3), FACTS.slice(1, 2), FACTS.slice(0, 3), FACTS.slice(0, 0)]
    run(_TABLE)
    for time, table in enumerate(moments):
        run('DELETE FROM "zone pairs"', *rows(table))
        for source, folder in ((address('"zone pairs"'), "there"), (in_order(table), "memory")):
            record(source, tmp_path / folder, keys=["a", "b"], columns=["Odd name"], time=time)
    there, memory = (History(tmp_path / folder) for folder in ("there", "memory"))
    for number in range(1, 5):
        assert there.facts(number).equals(memory.facts(number))
    assert there.facts()["begin"].to_pylist() == [None, None, None, 2] and there.facts()["end"].to_pylist() == [3, 3, 1, 3]


def test_a_relation_that_changes_gives_the_same_run_wherever_it_lives(place, tmp_path):
    """Pairs come and go while the streams are played; a table in memory has the intervals from the beginning."""
    run, address = place
    pairs = [{(1, 7), (2, 8)}, {(1, 7), (1, 8), (2, 9)}, {(2, 8), (1, 8)}, {(1, 7), (1, 8)}]
    run("CREATE TABLE zones (a BIGINT, b BIGINT)")
    for time, now in enumerate(pairs):
        run("DELETE FROM zones", *(f"INSERT INTO zones VALUES {pair}" for pair in sorted(now, reverse=True)))
        record(address("zones"), tmp_path / "h", keys=["a", "b"], time=10 * time)
    facts = {"a": [1, 2, 1, 2, 2, 1], "b": [7, 8, 8, 9, 8, 7], "begin": [None, None, 10, 10, 20, 30], "end": [20, 10, None, 20, 30, None]}
    trace = ps.Trace(
        {"stream": ["R", "S"] * 40, "time": list(range(80)), "key": [(1, 7, 2, 8, 1, 9, 2)[n % 7] for n in range(80)]}, streams=("R", "S")
    )

    def played(source: Any) -> Any:
        through = ps.relation(source, links=["R.key = a", "b = S.key"], name="zones")
        return ps.simulate(trace, window=12, memory=5, policy="prob", through=through, keep=ps.Keep(outputs=True))

    there, memory = played(f"history:{tmp_path / 'h'}"), played(facts)
    assert there.outputs.tolist() == memory.outputs.tolist() and there.n_filtered == memory.n_filtered and memory.n_output > 20
    run('CREATE TABLE scd (a BIGINT, b BIGINT, "begin" BIGINT, "end" BIGINT)')
    shown = ["NULL" if value is None else str(value) for row in zip(*facts.values(), strict=True) for value in row]
    run(*(f"INSERT INTO scd VALUES ({', '.join(shown[at : at + 4])})" for at in range(0, len(shown), 4)))
    assert played(address("scd")).n_output == memory.n_output
    found = [
        ps.lookup(trace, ps.relation(source, links=["R.key = a", "b = S.key"])) for source in (address("scd"), in_order(pa.table(facts)))
    ]
    assert [column.to_pylist() for column in found[0].columns] == [column.to_pylist() for column in found[1].columns]
    nothing = pa.table({"time": [1], "key": pa.array([None], pa.int64())})
    assert len(ps.lookup(nothing, ps.relation(address("scd"), links=["R.key = a"]))) == 0


def test_a_server_that_is_down_is_named_at_once_and_asked_again_in_the_middle(postgres, tmp_path):
    postgres.run("CREATE TABLE IF NOT EXISTS down (a BIGINT, b BIGINT)", "INSERT INTO down VALUES (1, 2)")
    source = postgres.address("down")
    first = record(source, tmp_path / "h", keys=["a", "b"], time=0)
    postgres.stop()
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            postgres.start()
            postgres.run("INSERT INTO down VALUES (3, 4)")

    try:
        with pytest.raises(ps.PenstockError, match=r"#down cannot be reached: .*(refused|closed)"):
            record(source, tmp_path / "h", keys=["a", "b"], time=1)
        with pytest.raises(ps.PenstockError, match="asked again for 3 seconds"):
            patiently(database_at(source).read, 3.0, sleep=lambda seconds: None)
        assert len(patiently(database_at(source).read, 60.0, sleep=sleep)) == 2 and waited == [1.0, 2.0, 4.0]
    finally:
        if len(waited) < 3:
            postgres.start()
    assert History(tmp_path / "h").version() == first
    assert record(source, tmp_path / "h", keys=["a", "b"], time=2).counts == {"begun": 2}


def test_a_password_comes_from_the_environment(postgres, monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    postgres.run(f"CREATE ROLE {LOCKED} LOGIN PASSWORD 's3cret'", "CREATE TABLE own AS SELECT 1 AS a")
    postgres.run(f"GRANT USAGE ON SCHEMA public TO {LOCKED}", f"GRANT SELECT ON own TO {LOCKED}")
    database = database_at(postgres.address("own").replace("penstock@", f"{LOCKED}@"))
    for password, said in ((None, "no password supplied"), ("wrong", "password authentication failed")):
        if password is not None:
            monkeypatch.setenv("PGPASSWORD", password)
        with pytest.raises(ps.PenstockError, match=f"cannot be read: .*{said}") as refused:
            patiently(database.read, 60)
        assert "wrong" not in str(refused.value)
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    assert database.read(among=("a", pa.array([1]))).to_pylist() == [{"a": 1}]


REFUSED = {
    "duckdb:zones.duckdb": "must be such as 'duckdb:zones.duckdb#zone_pairs', got 'duckdb:zones.duckdb'",
    "duckdb:none.duckdb#t": "there is no database 'none.duckdb'",
    "duckdb:here.duckdb#nope": "Table with name nope does not exist",
    "duckdb:here.duckdb#t;drop": 'must end in "#table"',
    "duckdb:text.duckdb#t": "not a valid DuckDB database",
    "postgresql://me@h/db": "must be such as 'postgresql://me@db.example/city#zone_pairs'",
    "postgresql://me@127.0.0.1:1/db#t": "cannot be reached: .*refused",
}


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_wrong_is_refused_in_one_sentence(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.duckdb").write_text("hello")
    duckdb.connect("here.duckdb").execute("CREATE TABLE t (a INTEGER)").close()
    with pytest.raises(ps.PenstockError, match=REFUSED[address]) as refused:
        database_at(address).read()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:s3cret@h/db#t",
        "postgres://h/db?password=s3cret&user=me#t",
        "postgresql://:s3cret@h/#t",
        "postgresql://me:a/s3cret#x@h/db#t",
    ],
)
def test_a_password_in_an_address_is_refused_and_never_shown(uri):
    with pytest.raises(ps.PenstockError, match="must have no password in it") as refused:
        database_at(uri)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "uri", ["postgresql://h:5432/db#t", "postgresql://me@h:5432/db#SELECT a FROM t WHERE b = ':@'", "postgresql:///db#t"]
)
def test_a_port_is_no_password(uri):
    assert database_at(uri).given == uri


@pytest.mark.parametrize(("module", "address"), [("duckdb", "duckdb:here.duckdb#t"), ("adbc_driver_manager", "postgresql://h/db#t")])
def test_a_driver_that_is_missing_is_named_with_what_installs_it(module, address, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ps.PenstockError, match=r"pip install 'penstock-spark\[(duckdb|postgres)\]'"):
        database_at(address).read()
