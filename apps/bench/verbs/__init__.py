"""The flights' tables by verbs, in and out of order: Sequitur's beside those of its peers."""
