"""What operators can tell a view, and what would become of it."""
