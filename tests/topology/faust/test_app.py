"""What `compile` takes: its own settings, Faust's, and nothing that is neither."""

from pathlib import Path
from typing import Any

import pytest

from topology import DeclarationError, Topology
from topology.faust import compile


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_contxt": None}, r"setting 'ssl_contxt' \(did you mean 'ssl_context'"),
        ({"broker_credential": None}, r"'broker_credential' \(did you mean 'broker_credentials'"),
        ({"guarrantee": "at_least_once"}, r"'guarrantee' \(did you mean 'guarantee'"),
        ({"xyz": 1}, r"^compile: there is no setting 'xyz'$"),
        (
            {"batch": "hunter2"},
            r"^compile: batch: Input should be a valid integer.*(?<!2)$",
        ),
        ({"queries": "0.0.0.0:9000"}, r"^compile: queries: other workers do not reach [^\n]+$"),
    ],
)
def test_a_setting_that_there_is_not_or_that_is_wrong_is_refused(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(DeclarationError, match=said):
        compile(Topology("shop"), **settings)


def test_settings_of_faust_are_passed_on(tmp_path: Path) -> None:
    settings = {"consumer_metadata_max_age_ms": 30_000, "web_port": 7000, "debug": True}
    app = compile(Topology("shop"), datadir=str(tmp_path), monitor=None, **settings)
    assert {name: getattr(app.conf, name) for name in settings} == settings
