// The Python class Epoch: the iterator of a `for` loop over a loader.
//
// It is native because no signal may be handled between the moment at which the loader delivers a
// batch and the one at which the loop has it: a KeyboardInterrupt there would lose the batch.

#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>

#include "energon/sample/sample.h"
#include "python/src/pipeline_object.h"

namespace energon::python {

/// The next batch for Python: that of `next`, which is called without the GIL; a null object at the
/// end of the epoch. No signal is handled before `finish` (finished()) has returned. Requires: the
/// GIL. If functions run in this process, its random numbers are
/// afterwards as before. Throws nb::python_error for a pending signal, and what `next` throws.
nanobind::object next_batch(const PipelineObject& pipeline, nanobind::handle finish,
                            bool shares_random, const std::function<std::optional<Sample>()>& next);

void bind_epoch(nanobind::module_& module);

}  // namespace energon::python
