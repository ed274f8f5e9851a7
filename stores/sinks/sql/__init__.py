"""Read stores in SQL databases."""
