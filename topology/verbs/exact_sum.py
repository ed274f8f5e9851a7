"""Sums of floats without rounding, so that the last bit does not tell the order of the terms.

A sum is a list that JSON can write: the ints' sum first, if it is not 0, as a text where it has
more than 64 bits; then floats that do not overlap, as in J. R. Shewchuk, "Adaptive Precision
Floating-Point Arithmetic" (1997), and in CPython's `math.fsum`.
"""

import math

from topology.model.errors import HandlerError

Number = int | float
Sum = list[Number | str]
_MOST_BITS = 1000
"""Of an int, so that it has a float that is nearest."""


def add_exactly(terms: Sum, term: Number | str) -> Sum:
    """The terms of a sum with one more. Raises HandlerError for what is not finite."""
    if not isinstance(term, float):
        if terms and not isinstance(terms[0], float):
            return _with_int(int(terms[0]) + int(term), terms[1:])
        return _with_int(int(term), terms)
    x = term
    whole = terms[:1] if terms and not isinstance(terms[0], float) else []
    kept: Sum = []
    for y in terms[len(whole) :]:
        assert isinstance(y, float)
        high, low = (x, y) if abs(x) >= abs(y) else (y, x)
        x = high + low
        if rest := low - (x - high):
            kept.append(rest)
    if not math.isfinite(x):
        raise HandlerError(f"the sum would be {x!r}, no finite number: filter such events out")
    return [*whole, *kept, x] if x else [*whole, *kept]


def negated(terms: Sum) -> Sum:
    """The terms of the sum that adds up to nothing with this one."""
    return [-each if isinstance(each, int | float) else str(-int(each)) for each in terms]


def _with_int(whole: int, terms: Sum) -> Sum:
    if -(2**63) <= whole < 2**63:
        return [whole, *terms] if whole else terms
    if whole.bit_length() > _MOST_BITS:
        raise HandlerError(f"the sum of the ints has more than {_MOST_BITS} bits: filter some out")
    return [str(whole), *terms]


def rounded(terms: Sum) -> Number:
    """The sum, rounded once: an int of ints only, if it has 64 bits; else the float that is
    nearest."""
    if not terms:
        return 0
    if isinstance(terms[0], float):
        return math.fsum(terms)  # type: ignore[arg-type]
    whole = int(terms[0])
    if len(terms) == 1 and isinstance(terms[0], int):
        return whole
    high = float(whole)
    return math.fsum((high, whole - int(high), *terms[1:]))  # type: ignore[arg-type]
