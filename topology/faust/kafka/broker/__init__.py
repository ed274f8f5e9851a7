"""The broker as a worker meets it: away, slow to be ready, or without the topics it should have."""
