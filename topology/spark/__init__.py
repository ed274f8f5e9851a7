"""Run a topology with Spark; each module stands by itself."""
