"""`ps.watch` and what it returns: a server that follows the queries of a session."""

from __future__ import annotations

from threading import Thread
from types import TracebackType
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.core.errors import PenstockError
from penstock.spark.observe.listener import follow_session, leave_session
from penstock.spark.session.java import Java
from penstock.spark.watch.board import Board
from penstock.spark.watch.server import Application, PortTakenError, listen

_LOOPBACK = "127.0.0.1"
_POLL = 0.1  # seconds after which it sees that it was stopped


def watch(spark: SparkSession, port: int = 0, *, address: str = _LOOPBACK) -> Watch:
    """Serve the metrics of all joins of a session, those that run and those to come, for Prometheus and as a live page.

    * `port`: such as 9108; 0 (the default) takes any that is free. The `port` and `url` of what is returned show which.
    * `address`: who can reach it: this machine alone by default, "0.0.0.0" for every machine in the network. There is no password.

    It serves until its `stop()` or the end of a `with` block. It does not keep the program running.
    """
    if not hasattr(spark, "streams"):
        raise PenstockError(f"spark must be a Spark session, got {spark!r}")
    try:
        served = Watch(port, address)
    except PortTakenError:
        for one in _serving:
            if one._session is spark and one.port == port:
                raise PenstockError(
                    f"port must be free, got {port}, where this session is served already: see {one.url}, or stop() that server first"
                ) from None
        raise
    try:
        return served.of(spark)
    except BaseException:
        served.stop()
        raise


class Watch:
    """A server of what the joins of a session report: its `url` and `port`, and `stop()`."""

    def __init__(self, port: object = 0, address: str = _LOOPBACK) -> None:
        self._board = Board()
        self._session: SparkSession | None = None
        self._server = listen(_port(port), address)
        self._server.set_app(Application(self._board, self._look))
        self._address = address
        _serving.add(self)
        Thread(target=self._server.serve_forever, args=(_POLL,), name="penstock-watch", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where this machine finds the live page; Prometheus finds its text under `metrics` there."""
        host = {"0.0.0.0": _LOOPBACK, "::": "::1"}.get(self._address, self._address)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def of(self, spark: SparkSession) -> Watch:
        """Show the queries of this session."""
        self._session = spark
        with self._board.lock:  # what the listener hears meanwhile waits
            follow_session(spark, self._board)
            for query in spark.streams.active:
                self._board.begin(str(query.id), str(query.runId), query.name)
                for progress in query.recentProgress:
                    self._board.progressed(progress)
        return self

    def stop(self) -> None:
        """Give the port back. A second call does nothing."""
        if self._session is not None:
            leave_session(self._session, self._board)
            self._session = None
        _serving.discard(self)
        self._server.shutdown()
        self._server.server_close()

    def _look(self) -> None:
        """Spark does not report the end of queries that end with their session."""
        spark: Java = self._session
        if spark is not None and (spark.is_stopped if is_remote() else spark.sparkContext._jsc is None):
            self._board.stop_all()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<penstock at {self.url}>"


_serving: WeakSet[Watch] = WeakSet()
"""The servers of this program that have not been stopped."""


def _port(port: object) -> int:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise PenstockError(f"port must be a whole number from 0 (any that is free) to 65535, got {port!r}")
    return port
