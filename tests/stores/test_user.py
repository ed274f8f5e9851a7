import getpass
import os

import pytest

from stores.user import user_name


def test_it_is_the_name_of_the_environment_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann by root")
    assert user_name() == "ann by root"


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_that_the_system_does_not_know_has_a_number(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    # As in a container that runs under any user.
    def unknown() -> str:
        raise error("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert user_name() == f"uid {os.getuid()}"
