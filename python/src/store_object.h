// The Python class NativeStore: files of a dataset or a folder by name, for use anywhere.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "io/index/media_metadata.h"

namespace energon::python {

/// ("image" or "av", JSON), or None.
nanobind::object media_to_python(const std::optional<MediaMetadata>& media);

}  // namespace energon::python
