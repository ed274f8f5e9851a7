"""`scripts/bench delivery`: capture, relay and cursor, against PostgreSQL."""
