"""Measure the engine beside what a user would pick instead, on one broker, in one run."""
