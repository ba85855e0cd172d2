"""Functions that wrappers add to a dataset: each becomes a stage of its pipeline."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from ._recipe import DatasetRecipe
from ._stages import Encoder
from .cooking import get_failure_tolerance
from .task_encoder import AugmentTaskEncoder, stage_function

Function = Callable[..., Any]


class ComposedEncoder(AugmentTaskEncoder[Any, Any, Any, Any]):
    """The functions of another encoder, with some replaced or removed."""

    def __init__(self, encoder: Encoder, functions: dict[str, Function | None]) -> None:
        super().__init__(encoder)
        self._as_energon = encoder._as_energon
        self.__default_failure_tolerance__ = encoder.__default_failure_tolerance__
        vars(self).update(functions)


def delivers_batches(recipe: DatasetRecipe) -> bool:
    return recipe.options["batch_size"] is not None or "batch_group_criterion" in recipe.stages


def with_function(
    recipe: DatasetRecipe, function: Function, failure_tolerance: int | None = None
) -> DatasetRecipe:
    """The recipe with one more function of what it delivers: samples, packs or batches."""
    encoder = recipe.task_encoder
    name = _last_stage(recipe)
    earlier = stage_function(encoder, name)
    if failure_tolerance is not None and get_failure_tolerance(function, None) is None:
        function = _tolerating(function, failure_tolerance)
    chained = _chained_list if name == "encode_samples" else _chained
    added = function if earlier is None else chained(earlier, function)
    return recipe.changed(task_encoder=ComposedEncoder(encoder, {name: added}))


def with_stages(
    recipe: DatasetRecipe,
    functions: dict[str, Any],
    options: dict[str, Any],
    failure_tolerance: int | None | dict[str, int | None],
) -> DatasetRecipe:
    """The recipe with these functions in place of its own, and these options.

    Args:
        failure_tolerance: For all functions, or by name.
    """
    for name, function in functions.items():
        tolerance = failure_tolerance
        if isinstance(tolerance, dict):
            tolerance = tolerance.get(name)
        if function is not None and tolerance is not None:
            functions[name] = _tolerating(function, tolerance)
    encoder = ComposedEncoder(recipe.task_encoder, functions)
    return recipe.changed(task_encoder=encoder, options=options)


def _last_stage(recipe: DatasetRecipe) -> str:
    """The stage whose results the recipe delivers, or the one after it if that is native."""
    if delivers_batches(recipe):
        return "encode_batch"
    for name in ("pack_selected_samples", "postencode_sample", "encode_samples"):
        if name in recipe.stages:
            return name
    return "postencode_sample" if "preencode_sample" in recipe.stages else "encode_sample"


def _tolerating(function: Function, failure_tolerance: int) -> Function:
    """Another function that does the same, with a failure tolerance of its own."""
    if is_generator(function):

        def called(*values: Any) -> Any:
            yield from function(*values)

    else:
        called = lambda *values: function(*values)  # noqa: E731
    setattr(called, "__failure_tolerance__", failure_tolerance)
    return called


def is_generator(function: Function) -> bool:
    return inspect.isgeneratorfunction(inspect.unwrap(function))


def _chained(first: Function, second: Function) -> Function:
    """The second function of the results of the first one."""
    if not is_generator(first) and not is_generator(second):
        chained: Function = lambda *values: second(first(*values))  # noqa: E731
    else:

        def chained(*values: Any) -> Any:
            results = first(*values) if is_generator(first) else [first(*values)]
            for result in results:
                if is_generator(second):
                    yield from second(result)
                else:
                    yield second(result)

    tolerances = [get_failure_tolerance(one, None) for one in (first, second)]
    given = [tolerance for tolerance in tolerances if tolerance is not None]
    if given:
        setattr(chained, "__failure_tolerance__", min(given))
    if all(getattr(one, "draws_nothing", False) for one in (first, second)):
        setattr(chained, "draws_nothing", True)
    return chained


def _chained_list(first: Function, second: Function) -> Function:
    if is_generator(second):
        raise TypeError("a generator cannot follow encode_samples, whose results are counted")
    return lambda samples: [second(one) for one in first(samples)]
