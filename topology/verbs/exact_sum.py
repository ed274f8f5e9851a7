"""Sums of floats without rounding, so that the last bit does not tell the order of the terms.

A sum is a list that JSON can write: the ints' sum first, if it is not 0, then floats that do not
overlap, as in J. R. Shewchuk, "Adaptive Precision Floating-Point Arithmetic" (1997), and in
CPython's `math.fsum`.
"""

import math

from topology.model.errors import HandlerError

Number = int | float


def add_exactly(terms: list[Number], term: Number) -> list[Number]:
    """The terms of a sum with one more. Raises HandlerError for what is not finite."""
    if isinstance(term, int):
        if terms and isinstance(terms[0], int):
            return _with_int(terms[0] + term, terms[1:])
        return _with_int(term, terms)
    x = term
    whole = terms[:1] if terms and isinstance(terms[0], int) else []
    kept: list[Number] = []
    for y in terms[len(whole) :]:
        high, low = (x, y) if abs(x) >= abs(y) else (y, x)
        x = high + low
        if rest := low - (x - high):
            kept.append(rest)
    if not math.isfinite(x):
        raise HandlerError(f"the sum would be {x!r}, no finite number: filter such events out")
    return [*whole, *kept, x] if x else [*whole, *kept]


def _with_int(whole: int, terms: list[Number]) -> list[Number]:
    if not -(2**63) <= whole < 2**63:
        raise HandlerError("the sum of the ints has more than 64 bits: let `of` return floats")
    return [whole, *terms] if whole else terms


def rounded(terms: list[Number]) -> Number:
    """The sum, rounded once: an int of ints only, else the float that is nearest."""
    if not terms:
        return 0
    if not isinstance(terms[0], int):
        return math.fsum(terms)
    whole = terms[0]
    high = float(whole)
    return whole if len(terms) == 1 else math.fsum((high, whole - int(high), *terms[1:]))
