"""A bookshop, where a cancellation must not overtake the order that it cancels.

Each order is a unit: its messages are worked on one after the other, by whichever of several
consumers is free, and other orders meanwhile.
"""
