"""Read stores of Delta Lake tables."""
