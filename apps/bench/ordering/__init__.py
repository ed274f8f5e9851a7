"""What an ordered commit costs: slow handlers side by side on one partition, few keys and many."""
