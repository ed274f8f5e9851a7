"""`scripts/demo routing`: a year's departures through a router, and the proof by pandas."""
