"""Topologies for measuring, besides apps.passthrough; what they need is in their environment."""
