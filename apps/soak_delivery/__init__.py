"""A soak of delivery: everything between two databases is killed, and then the two must agree."""
