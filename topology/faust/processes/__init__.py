"""Several workers of one app on one machine: a process each, and one that supervises them.

Who runs one imports `supervisor`, which loads a server.
"""

from topology.faust.processes.numbered import NumberedWorker

__all__ = ["NumberedWorker"]
