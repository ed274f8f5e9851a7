"""Harm to producers that capture, and to their databases, which must agree afterwards."""
