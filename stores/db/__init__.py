"""Databases: engines by URL, dialects, clocks, and what an error means."""
