// Taking and giving back the lock of the interpreter (the GIL).
//
// When the interpreter ends, a thread that asks for the GIL is ended by Python before 3.14: its
// stack is unwound, through C++ code that may not throw. Such a thread sleeps for ever instead, as
// Python 3.14 has it; the process ends without it.

#pragma once

#include <Python.h>

namespace energon::python {

/// Gives the GIL back while the object lives. Requires: the thread holds it.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil() noexcept(false);
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* const state_;
};

/// Holds the GIL while the object lives, in any thread; may be nested.
class HoldGil {
 public:
  HoldGil();
  ~HoldGil() { PyGILState_Release(state_); }
  HoldGil(const HoldGil&) = delete;
  HoldGil& operator=(const HoldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// A reference to a Python object that any thread may drop, also after the interpreter ended.
class OwnedObject {
 public:
  OwnedObject() = default;
  /// Requires: the GIL. Adds a reference.
  explicit OwnedObject(PyObject* object) : object_(object) { Py_XINCREF(object); }
  OwnedObject(OwnedObject&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  OwnedObject& operator=(OwnedObject&&) = delete;
  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;
  ~OwnedObject();

  PyObject* get() const { return object_; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace energon::python
