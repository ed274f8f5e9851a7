"""Events that come again: from the redelivery topic, and from the dead topic."""
