"""The expressions of a field_map in dataset.yaml, such as `json[caption][0],txt`."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ._errors import SampleException

#: Alternatives, each of which is a part and the steps into it.
Expression = Sequence[Sequence[str]]

_ALTERNATIVE = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\])*)")


class FieldAccessError(SampleException):
    """A sample does not have what an expression names."""


def split_field_access(field_desc: str) -> list[list[str]]:
    """Parses an expression: `a[b],c` is `[["a", "b"], ["c"]]`."""
    alternatives = []
    for text in field_desc.split(","):
        match = _ALTERNATIVE.fullmatch(text)
        if match is None:
            alternatives.append([field_desc])  # the name of a part with brackets
        else:
            alternatives.append([match[1], *re.findall(r"\[([^\[\]]+)\]", match[2])])
    return alternatives


def field_access(value: Any, field: Expression) -> Any:
    """Returns the value of the first alternative that the sample has.

    Raises:
        FieldAccessError: The sample has none of them.
    """
    problems = []
    for steps in field:
        try:
            return _value_at(value, steps)
        except (KeyError, IndexError, ValueError) as error:
            problems.append(f"{_text_of(steps)} ({error})")
    raise FieldAccessError(f"the sample has none of {', '.join(problems)}")


def _value_at(value: Any, steps: Sequence[str]) -> Any:
    for number, step in enumerate(steps):
        if isinstance(value, Mapping):
            if step not in value:
                raise FieldAccessError(f"no '{step}' among {_names_of(value)}")
            value = value[step]
        elif isinstance(value, list):
            try:
                value = value[int(step)]
            except (IndexError, ValueError):
                raise FieldAccessError(f"no [{step}] in a list of {len(value)}") from None
        else:
            raise FieldAccessError(f"[{step}] of a {type(value).__name__}")
    return value


def _text_of(steps: Sequence[str]) -> str:
    return "'" + steps[0] + "".join(f"[{step}]" for step in steps[1:]) + "'"


def _names_of(value: Mapping[str, Any]) -> str:
    names = [name for name in value if not str(name).startswith("__")]
    return ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "") or "nothing"
