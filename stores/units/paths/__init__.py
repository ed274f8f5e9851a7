"""The path service at run time: one process leads for a destination, others stand by."""
