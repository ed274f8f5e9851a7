"""The simulator: a topology under crashes, rebalances and zombies, by a seed."""
