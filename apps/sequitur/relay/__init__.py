"""The relay: moves a message log to Kafka, or over HTTP to an inbox, at least once and in order."""
