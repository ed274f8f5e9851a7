"""The same ordering job done by what a user would pick instead, and by what no framework slows.

Each reads INPUT from its start, keyed by stream, with the sequence in the body's field `seq`, and
writes each stream's events once, in sequence, to OUTPUT; its state is in RocksDB and on a
changelog topic.
"""
