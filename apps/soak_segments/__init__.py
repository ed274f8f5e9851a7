"""Kills consumers and publishers of units of work between every two steps of the save store."""
