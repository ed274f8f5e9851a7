"""What a view keeps in a partition: rows, progress, timers, positions."""
