"""Tells of a handler that blocks its worker, while it does."""

from topology.faust.worker.watch.watchdog import Blocked, Watchdog

__all__ = ["Blocked", "Watchdog"]
