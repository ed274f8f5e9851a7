"""Kafka beside Faust's group consumer: clients, readers, topics, offsets, clocks."""
