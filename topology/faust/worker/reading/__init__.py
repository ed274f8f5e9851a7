"""How a worker reads its partitions: from where, how much at a time, and how far beside others."""
