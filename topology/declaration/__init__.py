"""Declarations: topology, sources, views, and what can be chosen for them."""
