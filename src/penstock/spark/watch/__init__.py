"""`ps.watch`: the joins of a session for Prometheus and on a live page, from one port.

`board` keeps what queries report; `exposition` and `data` show it to Prometheus and to the page, `server` answers. Imports
observe, session and core.
"""

from penstock.spark.watch.handle import Watch, watch

__all__ = ["Watch", "watch"]
