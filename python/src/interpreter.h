// The interpreter: its lock (the GIL), and what it needs around the forks of a loader and while a
// loader waits.
//
// When the interpreter ends, a thread that asks for the GIL is ended by Python before 3.14: its
// stack is unwound, through C++ code that may not throw. Such a thread sleeps forever instead, as
// Python 3.14 has it; the process ends without it.

#pragma once

#include <Python.h>

#include <functional>

#include "energon/process/fork_hooks.h"

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

/// CPython's fork hooks. In the fork server, memory is frozen for the collector. In a worker, its
/// output is set up and the main thread gives the GIL up, so that stages of the core run without.
ForkHooks interpreter_fork_hooks();

/// Runs the handlers of pending signals. Throws nb::python_error for what they raise, such as
/// KeyboardInterrupt. Takes the GIL.
std::function<void()> signal_check();

}  // namespace energon::python
