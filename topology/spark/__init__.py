"""Run a topology with Spark: `run` until it is told to stop, or `start` and go on.

Nothing of Spark is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topology.spark.captured import replay_log
    from topology.spark.live import LiveQuery, run, start
    from topology.spark.settings import CannotRun, Settings
    from topology.spark.supported import check_supported

__all__ = ["CannotRun", "LiveQuery", "Settings", "check_supported", "replay_log", "run", "start"]

_MODULES = {
    **dict.fromkeys(("LiveQuery", "run", "start"), "live"),
    **dict.fromkeys(("CannotRun", "Settings"), "settings"),
    "check_supported": "supported",
    "replay_log": "captured",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
