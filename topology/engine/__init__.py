"""One partition, step by step: stream task, view task, view state, handling, commit unit."""
