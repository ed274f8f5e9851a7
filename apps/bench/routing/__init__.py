"""What routing costs: messages through rules in a cascade, and units of work through segments."""
