"""TopologyTestDriver: a topology without a broker, one message at a time."""
