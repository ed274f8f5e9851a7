"""`sequitur units`: names that no unit bears, and header names that are no text."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from sequitur.units.command import command


@pytest.mark.parametrize("action", ["status", "pause", "resume", "park", "redrive", "delete"])
@pytest.mark.parametrize("unit", ["", "x" * 250, "a\nb", "\udcff"])
def test_a_name_that_no_unit_bears_is_refused(action: str, unit: str) -> None:
    given = [action, "--destination", "d", "--group", "g", "--unit", unit]
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 2
    assert "cannot name a unit" in result.output


@pytest.mark.integration
def test_a_server_goes_on_behind_a_header_name_that_is_not_utf8() -> None:
    """What goes on is `TolerantRecords`, whose tests are with it."""
    code = """
import stores.units
from aiokafka.consumer import fetcher
print(fetcher.PartitionRecords.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "stores.kafka_records"
