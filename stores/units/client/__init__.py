"""The consumer of units: a session over all owners of a destination."""
