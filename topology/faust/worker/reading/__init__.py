"""How a worker reads its partitions: how much at a time, how far beside others, up to which gap."""
