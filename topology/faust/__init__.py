"""Run a topology with Faust: live, on Kafka, with durable tables and exactly-once commit units."""

from topology.faust.app import App, compile
from topology.faust.settings import Guarantee, Settings

__all__ = ["App", "Guarantee", "Settings", "compile"]
