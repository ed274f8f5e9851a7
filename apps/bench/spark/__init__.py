"""`scripts/bench spark`: what is measured of materializing and Spark, a file for each scenario."""
