"""Tables on a disk that may be slow, full or gone: none of it holds up the event loop."""
