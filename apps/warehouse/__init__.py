"""The worked example: orders in one database, and what the warehouse reserves for them in another."""
