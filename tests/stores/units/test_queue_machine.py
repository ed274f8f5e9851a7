"""Whatever happens: one session a unit, no overtaking, nothing lost, nothing again, progress."""

from hypothesis import HealthCheck, settings

from tests.examples import some
from tests.stores.units.queue_machine import DeadLetterMachine, QueueMachine

_SETTINGS = settings(
    max_examples=some(60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestParking = QueueMachine.TestCase
TestParking.settings = _SETTINGS
TestDeadLettering = DeadLetterMachine.TestCase
TestDeadLettering.settings = _SETTINGS
