"""How a worker makes commit units durable in Kafka, and what becomes of those that it refuses."""
