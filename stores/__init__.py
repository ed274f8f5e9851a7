"""What is kept outside of Kafka: view state, read stores, outbox, inbox, decisions, locks."""
