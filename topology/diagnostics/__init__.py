"""Answers from what is durable: explain, audit, and which time-outs to choose."""
