"""Units of order: the server's process, and administration."""
