// Writes tensors as files of NumPy (format version 1.0 of numpy.lib.format).

#pragma once

#include <string>

#include "energon/sample/sample.h"

namespace energon {

/// The bytes of a .npy file with `tensor`, row-major and little-endian. Throws Error
/// (kUnsupported) for bfloat16, which NumPy does not have.
std::string encode_npy(const Tensor& tensor);

}  // namespace energon
