"""`--help` lists commands, and nothing that only commands are made of."""

import subprocess
import sys


def listed(module: str) -> set[str]:
    """The commands that a command line has without an app."""
    told = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
    )
    _, _, commands = told.stdout.partition("Commands:\n")
    return {line.split()[0] for line in commands.splitlines() if line[2:3].strip()}


def test_what_commands_are_made_of_is_no_command() -> None:
    assert listed("topology.faust") == listed("faust")
