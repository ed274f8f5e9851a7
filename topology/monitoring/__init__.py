"""What a process answers over HTTP about itself: figures for Prometheus, and probes."""

from topology.monitoring.figures import BOUNDS, Growth, Lags, counter, gauge, single, up
from topology.monitoring.pages import Pages, Question

__all__ = ["BOUNDS", "Growth", "Lags", "Pages", "Question", "counter", "gauge", "single", "up"]
