// The Python class Buffer: bytes in the memory of a batch, without a copy.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include "io/bytes.h"

namespace energon::python {

/// Parts with more bytes than this become a Buffer, smaller parts `bytes`: a copy costs less than
/// an object that holds a slot of shared memory.
inline constexpr std::size_t kLargestCopiedPart = std::size_t{16} << 10;

struct BufferObject {
  SharedBytes bytes;
  bool writable = false;
};

/// Python `bytes`, or a Buffer for large parts.
nanobind::object bytes_to_python(const SharedBytes& bytes);

/// The bytes of `object`: a view of a Buffer or of `bytes`, or a copy of another object with the
/// buffer protocol. Requires: the GIL. Throws TypeError.
SharedBytes bytes_of_python(nanobind::handle object);

}  // namespace energon::python
