"""The replay server: queries, replays and recoveries over HTTP, and what carries them out."""
