"""The headers of a record that one view sends to another: which event it comes from."""

STREAM = "stream"
"""The event's stream."""
SEQUENCE = "sequence"
"""The event's sequence, as digits."""
EPOCH = "epoch"
"""How often the stream was rebuilt before, as digits; left out where it was not."""
