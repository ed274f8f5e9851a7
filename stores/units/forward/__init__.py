"""Store and forward: messages wait on the sender's disk, and one agent forwards them in order."""
