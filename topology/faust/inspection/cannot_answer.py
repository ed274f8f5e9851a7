"""Why a command has no answer."""


class CannotAnswer(RuntimeError):
    """Why there is no answer, and what to do; a command that raises it ends with status 2."""
