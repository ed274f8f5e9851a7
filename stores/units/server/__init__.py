"""The unit server: it owns members of a destination and hands their messages to consumers."""
