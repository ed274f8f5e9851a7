"""The replay log as commands: capture, queries, replays."""
