"""`sequitur units` acts on a whole member only if nothing names a unit."""

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
