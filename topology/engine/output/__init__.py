"""The handler, and the records that come of it."""
