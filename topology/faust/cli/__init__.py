"""The commands of `faust -A app`: what is asked of a topology, and what is told to its views."""

from typing import Any

from topology.faust.cli import audit, inspect, operate, processes, query, side_topics, topics
from topology.faust.cli.suggesting import suggest_commands


def register(app: Any) -> None:
    """Add all commands to an app's command line."""
    for commands in (inspect, audit, side_topics, operate, topics, query):
        commands.register(app)
    processes.register()
    suggest_commands()


__all__ = ["register"]
