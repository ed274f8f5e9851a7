"""Partitions that are routed by rules: their process, the rules it has, what Kafka refuses."""
