"""Run a topology with Spark. `run` is the live query; each of its modules stands by itself."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topology.spark.live import run, start
    from topology.spark.settings import Settings
    from topology.spark.supported import check_supported

__all__ = ["Settings", "check_supported", "run", "start"]


def __getattr__(name: str) -> Any:
    """Only what is asked for: Spark's Python workers import the package for less."""
    from importlib import import_module

    if name in ("run", "start"):
        return getattr(import_module("topology.spark.live"), name)
    if name == "Settings":
        return import_module("topology.spark.settings").Settings
    if name == "check_supported":
        return import_module("topology.spark.supported").check_supported
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
