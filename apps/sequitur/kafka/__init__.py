"""How the programs reach Kafka."""
