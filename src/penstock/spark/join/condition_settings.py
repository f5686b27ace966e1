"""The terms under which a condition is evaluated: settings of the session by which the same SQL gives something else."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.ledger.ledger_plan import LedgerPlan
from penstock.spark.session.first_line import first_line

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"


def terms_of(spark: SparkSession, condition: str | None) -> dict[str, Any]:
    """The terms of a session; none where there is no condition to evaluate."""
    return {} if condition is None else {ZONE: str(spark.conf.get(ZONE)), ANSI: str(spark.conf.get(ANSI)).lower() == "true"}


def session_under(spark: SparkSession, plan: LedgerPlan) -> SparkSession:
    """A session with the terms of the join whose ledger this is: the one that is given, or a copy of it. Older ledgers do not have them."""
    if plan.condition is None or plan.zone is None or plan.ansi is None:
        return spark
    wanted, there = {ZONE: plan.zone, ANSI: plan.ansi}, terms_of(spark, plan.condition)
    if wanted == there:
        return spark
    if not hasattr(spark, "_jsparkSession"):
        told = "; ".join(f"{name} must be {value}, got {there[name]}" for name, value in wanted.items() if there[name] != value)
        raise PenstockError(f"spark must have the settings under which the join evaluated its condition: {told}. Set them first")
    try:
        copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        copy.conf.set(ZONE, plan.zone)
        copy.conf.set(ANSI, plan.ansi)
    except PySparkException as error:
        raise PenstockError(
            f"plan.json of the archive must have a time zone that Spark knows, got {plan.zone!r}: {first_line(error)}"
        ) from None
    return copy
