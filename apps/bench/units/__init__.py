"""What units of order cost: slow work shared by more consumers than there are partitions."""
