// The interpreter: its lock (the GIL), its fork hooks, and its signals while a loader waits.
//
// When the interpreter ends, Python before 3.14 ends a thread that requests the GIL: its stack is
// unwound, through C++ code that may not throw. Here such a thread sleeps forever instead, as in
// Python 3.14, and the process ends without it.

#pragma once

#include <Python.h>

#include <functional>

#include "energon/process/fork_hooks.h"

namespace energon::python {

/// Releases the GIL while the object lives. Requires: the thread holds the GIL.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil() noexcept(false);
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* const state_;
};

/// Holds the GIL while the object lives, in any thread. May be nested.
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

/// CPython's fork hooks. In the fork server, the collector is disabled and its objects are frozen.
/// In a worker, output is set up and the main thread releases the GIL, so that stages of the core
/// run without it.
ForkHooks interpreter_fork_hooks();

/// Returns a function that takes the GIL and runs the handlers of pending signals. It throws
/// nb::python_error for their exceptions, such as KeyboardInterrupt.
std::function<void()> signal_check();

}  // namespace energon::python
