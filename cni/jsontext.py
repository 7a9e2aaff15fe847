"""JSON as the specification's other side, written in Go, reads and writes it."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def loads(text: str | bytes) -> Any:
    """Decode JSON.  Raises ValueError (JSONDecodeError with the position where the text is no JSON).

    A whole number written with a point or an exponent becomes an int, because Go refuses `1.0` where it wants an
    integer; NaN and infinities, which are not JSON, are refused; so is nesting too deep for us.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_whole_if_it_is)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dumps(value: Any) -> str:
    """Encode as compact JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _whole_if_it_is(text: str) -> int | float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large")
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number
