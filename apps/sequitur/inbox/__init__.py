"""What fills a cursor, from Kafka or over HTTP, and what an operator asks of one and tells it."""
