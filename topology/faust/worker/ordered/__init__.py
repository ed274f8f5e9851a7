"""Handlers that work side by side in a partition, and whose effects are committed in order.

Who has a partition of them imports `ordered_partition`, which loads clients of databases.
"""
