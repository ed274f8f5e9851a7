"""The exit statuses of all commands."""

DONE = 0
"""What was asked for is done; a process that was told to stop has stopped in order."""
BAD_NEWS = 1
"""It was looked, and something is not as it should be."""
CANNOT = 2
"""It could not be looked or done: a mistake in what was asked for, or something out of reach."""
STOPPED = 130
"""It was told to stop before its end."""
