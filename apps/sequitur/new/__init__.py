"""Write a project that runs: topology, test, and how to start everything."""
