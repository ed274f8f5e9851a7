"""Handlers in processes of their own: what the worker and its child tell each other, and the child.

A message goes to the child as bytes, effects and states come back as JSON; nothing is pickled.
"""

from topology.handler_process.frames import (
    LARGEST,
    LENGTH,
    effects_of,
    encode_effects,
    encode_job,
    framed,
)
from topology.handler_process.home import home_of

__all__ = ["LARGEST", "LENGTH", "effects_of", "encode_effects", "encode_job", "framed", "home_of"]
