#include "python/src/interpreter.h"

#include <Python.h>
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {

// --- The GIL ---

namespace {

[[noreturn]] void sleep_forever() {
  while (true) {
    ::pause();
  }
}

}  // namespace

ReleaseGil::~ReleaseGil() noexcept(false) {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    sleep_forever();
  }
}

HoldGil::HoldGil() {
  try {
    state_ = PyGILState_Ensure();
  } catch (const abi::__forced_unwind&) {
    sleep_forever();
  }
}

OwnedObject::~OwnedObject() {
  if (object_ != nullptr && Py_IsInitialized() != 0) {
    const HoldGil gil;
    Py_DECREF(object_);
  }
}

// --- Forks and signals ---

namespace {

// The progress of the forks. Each process has a copy.
struct Forks {
  PyGILState_STATE gil = PyGILState_UNLOCKED;  // as it was before the fork
  int levels = 0;                              // 1 in the fork server, 2 in a worker
};

void call_quietly(const char* function) {
  try {
    PackageAttribute("_process", function)();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(function);
  }
}

void before_fork(Forks& forks) {
  forks.gil = PyGILState_Ensure();
  call_quietly("before_fork");
  PyOS_BeforeFork();
}

void after_fork_in_parent(Forks& forks) {
  PyOS_AfterFork_Parent();
  PyGILState_Release(forks.gil);
}

void after_fork_in_child(Forks& forks) {
  PyOS_AfterFork_Child();
  if (++forks.levels == 1) {
    call_quietly("begin_fork_server");
  } else {
    call_quietly("begin_worker");
    PyEval_SaveThread();  // this thread takes the GIL again for each Python function
  }
}

}  // namespace

ForkHooks interpreter_fork_hooks() {
  const auto forks = std::make_shared<Forks>();
  ForkHooks hooks;
  hooks.before = [forks] { before_fork(*forks); };
  hooks.parent = [forks] { after_fork_in_parent(*forks); };
  hooks.child = [forks] { after_fork_in_child(*forks); };
  hooks.keep_descriptors =
      nb::cast<std::vector<int>>(PackageAttribute("_process", "descriptors_to_keep")());
  return hooks;
}

std::function<void()> signal_check() {
  return [] {
    const HoldGil gil;
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  };
}

}  // namespace energon::python
