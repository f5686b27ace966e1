"""One listener per Spark session, and those who follow it: what queries begin, report and end reaches Python once."""

from __future__ import annotations

import json
from functools import cached_property
from threading import Thread
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from pyspark.sql.utils import is_remote

from penstock.spark.session.java import Java


class Follower(Protocol):
    """Hears of the queries of a session, in a thread of the listener."""

    def started(self, event: QueryStartedEvent) -> None:
        """A query has started."""

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A query has ended a batch."""

    def ended(self, event: QueryTerminatedEvent) -> None:
        """A query has stopped or failed."""


class OfSession(Follower, Protocol):
    """A follower that a session has once."""

    def __init__(self, spark: SparkSession) -> None: ...


Own = TypeVar("Own", bound=OfSession)


def follow_session(spark: SparkSession, follower: Follower) -> None:
    """Call `follower` from now on for every query of the session."""
    if spark not in _listeners:
        listener = _listeners[spark] = _Listener()
        if is_remote():
            # There a listener is a thread of the client; as the child of a daemon it does not keep the client from ending.
            adding = Thread(target=spark.streams.addListener, args=(listener,), daemon=True)
            adding.start()
            adding.join()
        else:
            spark.streams.addListener(listener)
    _listeners[spark].followers += (follower,)


def follower_of(spark: SparkSession, kind: type[Own]) -> Own:
    """The one follower of a kind that a session has, made with the session where there is none."""
    for follower in _listeners[spark].followers if spark in _listeners else ():
        if isinstance(follower, kind):
            return follower
    made = kind(spark)
    follow_session(spark, made)
    return made


def leave_session(spark: SparkSession, follower: Follower) -> None:
    """Call it no more. The listener stays, since others may follow."""
    listener = _listeners[spark]
    listener.followers = tuple(one for one in listener.followers if one is not follower)


class _Listener(StreamingQueryListener):
    """Passes events on."""

    def __init__(self) -> None:
        self.followers: tuple[Follower, ...] = ()

    @cached_property
    def _jlistener(self) -> Java:
        java: Java = SparkContext._jvm
        return java.PythonStreamingQueryListenerWrapper(_JsonCallback(self))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Pass it on."""
        for follower in self.followers:
            follower.started(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Pass it on."""
        for follower in self.followers:
            follower.progressed(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """An idle query has nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Pass it on."""
        for follower in self.followers:
            follower.ended(event)


class _JsonCallback(JStreamingQueryListener):
    """Hands progress to a listener as one text. PySpark asks Java for every number in turn, which takes a tenth of a second per batch."""

    def onQueryProgress(self, jevent: Java) -> None:  # noqa: N802
        """Pass it on."""
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": json.loads(jevent.progress().json())}))


_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()
