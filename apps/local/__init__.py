"""What a checkout needs to run by itself: packages, a JVM, jars and a Kafka broker of its own.

Everything is kept in the checkout's ignored `.sequitur/` folder.
"""
