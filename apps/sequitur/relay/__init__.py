"""The relay: moves a message log to Kafka, or over HTTP to a cursor, at least once and in order."""
