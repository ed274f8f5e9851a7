"""A JVM, jars and a Kafka broker of one's own, without Docker and without an administrator."""
