"""What fills an inbox, from Kafka or over HTTP, and what an operator asks of one and tells it."""
