"""The worker: partitions, runners, steps, tables and writers."""
