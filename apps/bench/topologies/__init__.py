"""Topologies for measuring, besides passthrough; what they need is in their environment."""
