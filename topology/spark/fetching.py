"""How Spark's Kafka source is to fetch: in portions, and without waiting where nothing is to come.

A consumer asks for more only when it has handed out what it has; its own 500 records a poll and
1 MB a fetch make reading take twice as long.
"""

FETCHING = {
    # The broker would wait 500 ms for more at the end of a partition, and wherever little comes.
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.max.poll.records": "20000",
}
"""Options, which a user's own go before."""
