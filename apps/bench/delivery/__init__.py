"""`scripts/bench delivery`: capture, relay and inbox, against PostgreSQL."""
