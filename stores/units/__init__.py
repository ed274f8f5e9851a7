"""Units of order: the messages of one name, which one consumer works on at a time, in order."""
