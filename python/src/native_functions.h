// Functions of the core for Python's task encoders: tokenizers, ragged batches and image buckets.

#pragma once

#include "python/src/option_reader.h"
#include "wrappers/recipe/task_encoder.h"

namespace energon::python {

/// Takes the options that put functions of the core into `encoder`: "tokenizer" with "token_fields"
/// and "max_tokens", "fit_images", "group_images", "ragged_fields". Requires: the GIL.
void take_native_functions(OptionReader& options, TaskEncoder& encoder);

}  // namespace energon::python
