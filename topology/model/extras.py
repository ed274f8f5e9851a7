"""How the packages of an extra are installed."""

from importlib.metadata import PackageNotFoundError, version


def pip_install(extra: str) -> str:
    """The command that brings an extra of Sequitur.

    It names the version that runs: the public index has another package called sequitur.
    """
    try:
        return f"pip install 'sequitur[{extra}]=={version('sequitur')}'"
    except PackageNotFoundError:  # what runs was not installed
        return f"the extra {extra!r} of its wheel"
