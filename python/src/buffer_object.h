// The Python class Buffer: the bytes of a part, whatever its size.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include "io/bytes.h"

namespace energon::python {

/// Parts with more bytes than this stay in the memory of their batch, smaller ones are copied into
/// their object: a copy costs less than to hold a slot of shared memory.
inline constexpr std::size_t kLargestCopiedPart = std::size_t{16} << 10;

/// A new Buffer with these bytes. Requires: the GIL.
nanobind::object bytes_to_python(const SharedBytes& bytes);

/// A new Buffer over the memory of `bytes`, which Python may write. Requires: the GIL.
nanobind::object writable_buffer(const SharedBytes& bytes);

bool is_buffer(nanobind::handle object);

/// The bytes of `object`: a view of a Buffer or of `bytes`, or a copy of another object with the
/// buffer protocol. Requires: the GIL. Throws TypeError.
SharedBytes bytes_of_python(nanobind::handle object);

/// The bytes of a Buffer. Those of a copied part have no owner: they are valid as long as the
/// Buffer. Requires: is_buffer(buffer).
const SharedBytes& bytes_of_buffer(nanobind::handle buffer);

}  // namespace energon::python
