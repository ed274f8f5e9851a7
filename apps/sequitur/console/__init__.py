"""The console: what an operator looks at and does, in a browser."""
