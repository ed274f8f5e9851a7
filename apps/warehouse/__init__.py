"""The worked example: orders in one database, what is reserved for them in another."""
