"""What a worker answers over HTTP about the state of views: read-only, as of a stated offset."""

from topology.faust.worker.queries.server import QueryServer

__all__ = ["QueryServer"]
