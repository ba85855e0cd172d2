#include "python/src/epoch_object.h"

#include <csignal>
#include <utility>

#include "python/src/gil.h"
#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

/// Delays KeyboardInterrupt: the function is called again, and the signal comes back later.
class Uninterrupted {
 public:
  Uninterrupted() = default;
  ~Uninterrupted() {
    if (is_pending_) {
      PyErr_SetInterruptEx(SIGINT);
    }
  }
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

  template <class Function>
  auto operator()(Function&& function) {
    while (true) {
      try {
        return function();
      } catch (nb::python_error& raised) {
        if (!raised.matches(PyExc_KeyboardInterrupt)) {
          throw;
        }
        is_pending_ = true;
      }
    }
  }

 private:
  bool is_pending_ = false;
};

/// The generators of this process, put back at the end.
class RandomState {
 public:
  explicit RandomState(bool is_kept) {
    if (is_kept) {
      static constinit PackageAttribute save("_random", "save");
      state_ = save();
    }
  }
  void put_back(Uninterrupted& uninterrupted) {
    if (state_) {
      static constinit PackageAttribute restore("_random", "restore");
      uninterrupted([this] { restore(state_); });
    }
  }

 private:
  nb::object state_;
};

// An iterator over `loader`, a Loader; `owner` is the Python object that holds the functions. At
// the end of the epoch it calls stop() of the loader if `stops` is true.
class EpochObject {
 public:
  EpochObject(nb::object loader, nb::object owner, bool stops)
      : loader_(std::move(loader)), owner_(std::move(owner)), stops_(stops) {}

  nb::object next() {
    nb::object batch = is_over_ ? nb::none() : loader_.attr("next")();
    if (batch.is_none()) {
      const bool ends_now = !std::exchange(is_over_, true);
      if (ends_now && stops_) {
        loader_.attr("stop")();
      }
      throw nb::stop_iteration();
    }
    return batch;
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(loader_.ptr());
    Py_VISIT(owner_.ptr());
    return 0;
  }
  void clear() {
    is_over_ = true;
    loader_ = nb::object();
    owner_ = nb::object();
  }

 private:
  nb::object loader_;
  nb::object owner_;
  const bool stops_;
  bool is_over_ = false;
};

int traverse_epoch(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<EpochObject>(self)->traverse(visit, arg) : 0;
}

int clear_epoch(PyObject* self) {
  nb::inst_ptr<EpochObject>(self)->clear();
  return 0;
}

PyType_Slot epoch_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_epoch)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear_epoch)},
                             {0, nullptr}};

}  // namespace

nb::object next_batch(const PipelineObject& pipeline, nb::handle finish, bool shares_random,
                      const std::function<std::optional<Sample>()>& next) {
  // A loop in C, such as list.extend(), handles no signals, and those of `finish` are delayed.
  if (PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
  RandomState random(shares_random);
  Uninterrupted uninterrupted;
  std::optional<Sample> batch;
  try {
    const ReleaseGil gil;
    batch = next();
  } catch (...) {
    random.put_back(uninterrupted);
    throw;
  }
  random.put_back(uninterrupted);
  if (!batch) {
    return nb::none();
  }
  const nb::object made = uninterrupted([&] { return delivered(pipeline, *batch); });
  return uninterrupted([&] { return finished(made, finish); });
}

void bind_epoch(nb::module_& module) {
  nb::class_<EpochObject>(module, "Epoch", nb::type_slots(epoch_slots))
      .def(nb::init<nb::object, nb::object, bool>(), nb::arg("loader"), nb::arg("owner"),
           nb::arg("stops") = false)
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> typing.Iterator[typing.Any]"))
      .def("__next__", &EpochObject::next, nb::sig("def __next__(self) -> typing.Any"));
}

}  // namespace energon::python
