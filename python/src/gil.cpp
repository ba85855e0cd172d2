#include "python/src/gil.h"

#include <cxxabi.h>
#include <unistd.h>

namespace energon::python {
namespace {

[[noreturn]] void sleep_for_ever() {
  while (true) {
    ::pause();
  }
}

}  // namespace

ReleaseGil::~ReleaseGil() noexcept(false) {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

HoldGil::HoldGil() {
  try {
    state_ = PyGILState_Ensure();
  } catch (const abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

OwnedObject::~OwnedObject() {
  if (object_ != nullptr && Py_IsInitialized() != 0) {
    const HoldGil gil;
    Py_DECREF(object_);
  }
}

}  // namespace energon::python
