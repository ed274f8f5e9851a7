"""Units in Kafka: messages as records, producers, and the rows of an owner."""
