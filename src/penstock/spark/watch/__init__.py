"""`ps.watch`: the joins of a session for Prometheus and on a live page, from one port."""

from penstock.spark.watch.handle import Watch, watch

__all__ = ["Watch", "watch"]
