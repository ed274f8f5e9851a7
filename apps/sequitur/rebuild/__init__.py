"""Rebuilds views from history, beside the live ones, and puts them in their place."""
