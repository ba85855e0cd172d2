// A Python object between two Python functions of a pipeline, in one process.
//
// A sample that goes from one Python function to the next stays the object that the first returned:
// nothing is converted or copied, and its type is kept. The core sees lazy bytes, which it refuses
// to send to another process.

#pragma once

#include <Python.h>

#include "energon/sample/sample.h"

namespace energon::python {

/// The fields of a sample that is the object `object`. Requires: the GIL. The fields may be dropped
/// on any thread.
Mapping held_fields(PyObject* object);

/// The object that `sample` is, borrowed from its fields; null if it has fields of its own.
PyObject* held_object(const Sample& sample);

}  // namespace energon::python
