"""Handlers that work side by side in a partition, and whose effects are committed in order."""
