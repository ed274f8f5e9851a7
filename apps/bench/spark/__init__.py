"""`scripts/bench spark`: what is measured of the data side, a file for each scenario."""
