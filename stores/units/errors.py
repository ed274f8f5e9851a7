"""What can go wrong with units of order: each error names the thing, the reason, the remedy."""


class UnitError(RuntimeError):
    """Something about units of order that cannot be done; the text says why, and what helps."""


class StaleDelivery(UnitError):
    """A delivery number that the session no longer holds: it was returned, completed or taken."""


class UnitHeld(UnitError):
    """Messages of a unit cannot be moved or deleted while a session holds them."""


class SendRefused(UnitError):
    """A message cannot be sent now without risking its unit's order."""


class MemberUnavailable(SendRefused):
    """The member that has the unit, or the path service, cannot be reached."""


class RouteMoving(SendRefused):
    """The unit is being moved to another member: send again shortly."""


class UnitElsewhere(SendRefused):
    """A message went straight to a member, but its unit lives on another one."""
