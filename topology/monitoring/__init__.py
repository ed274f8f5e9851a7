"""What a process answers over HTTP about itself: figures for Prometheus, and probes."""

from topology.monitoring.figures import BOUNDS, Lags, counter, gauge, single, up
from topology.monitoring.pages import Pages, Question

__all__ = ["BOUNDS", "Lags", "Pages", "Question", "counter", "gauge", "single", "up"]
