#include "python/src/loader_object.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/autosave/auto_saver.h"
#include "energon/loader/basic_data_loader.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/sample/sample.h"
#include "energon/worker/statistics.h"
#include "python/src/interpreter.h"
#include "python/src/module.h"
#include "python/src/option_reader.h"
#include "python/src/pipeline_object.h"
#include "python/src/python_failure.h"
#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {

// --- Options ---

LoaderOptions read_loader_options(const nb::dict& values) {
  OptionReader reader(values);
  AllOptions options;
  for (const OptionRow& row : option_rows()) {
    if (is_of_loader(row)) {
      reader.take(row, options);
    }
  }
  reader.finish();
  LoaderOptions loader = std::move(options.loader);
  loader.wait_check = signal_check();
  if (loader.worker_config.num_workers > 0) {
    loader.fork_hooks = interpreter_fork_hooks();
  }
  return loader;
}

// --- The next batch ---

namespace {

/// Delays KeyboardInterrupt: the function is called again, and the signal is raised later.
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

/// The random generators of this process, restored at the end.
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

// The next batch for Python, from `next`, which is called without the GIL. None at the end of the
// epoch. No signal is handled before `finish` (finished()) has returned. If functions run in this
// process, the state of its random generators is restored afterwards. Requires: the GIL. Throws
// nb::python_error for a pending signal, and the exceptions of `next`.
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
  const nb::object item = uninterrupted([&] { return delivered(pipeline, *batch); });
  return uninterrupted([&] { return finished(item, finish); });
}

}  // namespace

// --- Loaders ---

namespace {

// Converts nlohmann's JSON to Python objects.
nb::object parse(const Config& config) {
  return nb::module_::import_("json").attr("loads")(config.dump());
}

// Whether functions run in this process, whose random generators they must not change.
bool shares_random(const PipelineObject& pipeline, const nb::dict& options) {
  return pipeline.calls_python && nb::cast<int>(options["num_workers"]) == 0;
}

// Runs `function` without the GIL.
template <class Function>
auto released(Function&& function) {
  const ReleaseGil gil;
  return std::forward<Function>(function)();
}

/// Marks that a thread is in next().
class Waiting {
 public:
  explicit Waiting(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<int>& count_;
};

class LoaderObject {
 public:
  LoaderObject(const PipelineObject& pipeline, const nb::dict& options, nb::handle finish)
      : pipeline_(pipeline),
        finish_(finish),
        shares_random_(shares_random(pipeline, options)),
        // With the GIL: the fork happens here.
        loader_(std::make_unique<SavableDataLoader>(pipeline.make_pipeline,
                                                    read_loader_options(options))) {}
  ~LoaderObject() {
    released([this] { loader_.reset(); });
  }
  LoaderObject(const LoaderObject&) = delete;
  LoaderObject& operator=(const LoaderObject&) = delete;

  // If a function in this process was interrupted, the loader continues from its position.
  nb::object next() {
    const Waiting waiting(waits_);
    forget_interrupt();
    try {
      return next_batch(pipeline_, finish_, shares_random_, [this] { return loader_->next(); });
    } catch (const Error&) {
      if (raise_interrupt()) {
        loader_->restore_state_rank(loader_->save_state_rank());
        throw nb::python_error();
      }
      throw;
    }
  }
  /// Whether a thread is in next().
  bool waits() const { return waits_; }
  SavableDataLoaderState save() {
    return released([this] { return loader_->save_state_rank(); });
  }
  SavableDataLoaderState state_at(std::int64_t batch_index) {
    return released([&] { return loader_->state_at(batch_index); });
  }
  std::int64_t earliest_state() {
    return released([this] { return loader_->earliest_state(); });
  }
  void rewind(std::int64_t batch_index) {
    released([&] { loader_->rewind(batch_index); });
  }
  void restore(const SavableDataLoaderState& state) {
    released([&] { loader_->restore_state_rank(state); });
  }
  void stop_and_restore(const SavableDataLoaderState& state) {
    released([&] { energon::stop_and_restore(*loader_, state); });
  }
  void stop() {
    released([this] { loader_->stop(); });
  }
  void close() {
    released([this] { loader_->close(); });
  }
  nb::object restore_sample(const RestoreKey& key) {
    Sample item = released([&] { return loader_->restore_sample(key); });
    return finished(delivered(pipeline_, item), finish_);
  }
  nb::object stats() {
    return parse(released([this] { return to_json(loader_->stats()); }));
  }
  nb::object config() {
    return parse(released([this] { return loader_->config(); }));
  }
  std::optional<std::int64_t> size() {
    return released([this] { return loader_->size(); });
  }
  std::optional<std::int64_t> batches_left() {
    return released([this] { return loader_->batches_left(); });
  }
  std::int64_t epoch() {
    return released([this] { return loader_->epoch(); });
  }
  std::vector<int> worker_pids() {
    return released([this] { return loader_->worker_pids(); });
  }
  BatchSource& source() { return *loader_; }

 private:
  const PipelineObject pipeline_;
  const nb::handle finish_;  // the Python loader holds it
  const bool shares_random_;
  std::atomic<int> waits_ = 0;
  std::unique_ptr<SavableDataLoader> loader_;
};

AutoSaveOptions read_auto_save_options(const nb::dict& values) {
  OptionReader reader(values);
  AutoSaveOptions options;
  reader.take("folder", options.folder);
  reader.take("every_batches", options.every_batches);
  reader.take("load_from", options.load_from);
  reader.take("keep", options.keep);
  reader.take("at_step", options.at_step);
  reader.take("start_over", options.start_over);
  reader.finish();
  return options;
}

/// The batches of a loader, whose position is saved in a folder: AutoSavingLoader for Python.
class AutoSaverObject {
 public:
  /// `loader` must outlive this. Restores its position, which starts no workers.
  AutoSaverObject(LoaderObject& loader, const nb::dict& options) : loader_(loader) {
    AutoSaveOptions read = read_auto_save_options(options);
    released([&] { saver_.emplace(loader_.source(), std::move(read)); });
  }

  // A batch whose save failed, or whose warning is an error, is returned by the next call.
  nb::object next() {
    const Call call(*this);
    if (pending_) {
      released([this] { saver_->save_if_due(); });
    } else {
      pending_ = loader_.next();
      if (pending_.is_none()) {
        return std::exchange(pending_, nb::object());
      }
      released([this] { saver_->count_batch(); });
    }
    warn_if_uncounted();
    return std::exchange(pending_, nb::object());
  }
  void save_now() {
    const Call call(*this);
    released([this] { saver_->save_now(); });
    warn_if_uncounted();
  }
  void stop() { loader_.stop(); }
  std::int64_t step() const { return saver_->step(); }
  std::optional<std::string> restored_from() const { return saver_->restored_from(); }
  std::vector<std::string> ignored() const { return saver_->ignored(); }

 private:
  /// A call that no other thread may interrupt while the GIL is released.
  class Call {
   public:
    explicit Call(AutoSaverObject& saver) : saver_(saver) {
      if (saver_.is_called_) {
        throw nb::value_error("another thread is in a call of this AutoSaver");
      }
      saver_.is_called_ = true;
    }
    ~Call() { saver_.is_called_ = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    AutoSaverObject& saver_;
  };

  void warn_if_uncounted() {
    const std::optional<UncountedCheckpoint>& last = saver_->last_uncounted();
    if (!last || last->step == warned_step_) {
      return;
    }
    warned_step_ = last->step;
    const std::string text =
        fmt::format("no run can continue from {}: {}", last->path, last->reason);
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) {
      throw nb::python_error();
    }
  }

  LoaderObject& loader_;
  std::optional<AutoSaver> saver_;
  nb::object pending_;  // taken and counted, but not returned
  std::int64_t warned_step_ = 0;
  bool is_called_ = false;
};

/// Rebuilds batches from their restore keys, without workers and without a position.
class BasicLoaderObject {
 public:
  BasicLoaderObject(const PipelineObject& pipeline, const nb::dict& options, nb::handle finish)
      : pipeline_(pipeline),
        finish_(finish),
        loader_(pipeline.make_pipeline, read_loader_options(options)) {}

  nb::object restore_sample(const RestoreKey& key) {
    Sample item = released([&] { return loader_.restore_sample(key); });
    return finished(delivered(pipeline_, item), finish_);
  }

 private:
  const PipelineObject pipeline_;
  const nb::handle finish_;  // the Python loader holds it
  BasicDataLoader loader_;
};

}  // namespace

void bind_loaders(nb::module_& module) {
  nb::class_<LoaderObject>(module, "Loader", "The native half of the Python loaders.")
      .def(nb::init<const PipelineObject&, const nb::dict&, nb::handle>(), nb::arg("pipeline"),
           nb::arg("options"), nb::arg("finish").none() = nb::none(),
           nb::sig("def __init__(self, pipeline: Pipeline, options: dict, "
                   "finish: typing.Any = None) -> None"))
      .def("next", &LoaderObject::next, nb::sig("def next(self) -> typing.Any"),
           "The next batch, or None at the end of the epoch.")
      .def_prop_ro("waits", &LoaderObject::waits)
      .def("save", &LoaderObject::save)
      .def("state_at", &LoaderObject::state_at, nb::arg("batch_index"))
      .def("earliest_state", &LoaderObject::earliest_state)
      .def("rewind", &LoaderObject::rewind, nb::arg("batch_index"))
      .def("restore", &LoaderObject::restore, nb::arg("state"))
      .def("stop_and_restore", &LoaderObject::stop_and_restore, nb::arg("state"))
      .def("stop", &LoaderObject::stop)
      .def("close", &LoaderObject::close)
      .def("restore_sample", &LoaderObject::restore_sample, nb::arg("key"))
      .def("stats", &LoaderObject::stats, nb::sig("def stats(self) -> dict[str, typing.Any]"))
      .def("config", &LoaderObject::config, nb::sig("def config(self) -> dict[str, typing.Any]"))
      .def("size", &LoaderObject::size)
      .def("batches_left", &LoaderObject::batches_left)
      .def("epoch", &LoaderObject::epoch)
      .def("worker_pids", &LoaderObject::worker_pids);
  nb::class_<AutoSaverObject>(module, "AutoSaver", "The native half of the Python AutoSaver.")
      .def(nb::init<LoaderObject&, const nb::dict&>(), nb::arg("loader"), nb::arg("options"),
           nb::keep_alive<1, 2>(),
           nb::sig("def __init__(self, loader: Loader, options: dict) -> None"))
      .def("next", &AutoSaverObject::next, nb::sig("def next(self) -> typing.Any"),
           "The next batch, or None at the end of the epoch.")
      .def("save_now", &AutoSaverObject::save_now)
      .def("stop", &AutoSaverObject::stop)
      .def_prop_ro("step", &AutoSaverObject::step)
      .def_prop_ro("restored_from", &AutoSaverObject::restored_from)
      .def_prop_ro("ignored", &AutoSaverObject::ignored);
  nb::class_<BasicLoaderObject>(module, "BasicLoader",
                                "Rebuilds batches from their restore keys, without workers.")
      .def(nb::init<const PipelineObject&, const nb::dict&, nb::handle>(), nb::arg("pipeline"),
           nb::arg("options"), nb::arg("finish").none() = nb::none(),
           nb::sig("def __init__(self, pipeline: Pipeline, options: dict, "
                   "finish: typing.Any = None) -> None"))
      .def("restore_sample", &BasicLoaderObject::restore_sample, nb::arg("key"));
}

// --- Epoch ---

namespace {

/// The Python class Epoch: the iterator of a `for` loop over a loader.
///
/// This class is native because no signal may be handled between the loader's delivery of a batch
/// and the loop's receipt of it: a KeyboardInterrupt there would lose the batch.
///
/// Iterates over `loader`, a Loader. `owner` is the Python loader, which holds the functions. Calls
/// its _end_epoch() once, at the end of the epoch.
class EpochObject {
 public:
  EpochObject(nb::object loader, nb::object owner)
      : loader_(std::move(loader)), owner_(std::move(owner)) {}

  nb::object next() {
    nb::object batch = is_over_ ? nb::none() : loader_.attr("next")();
    if (batch.is_none()) {
      const bool ends_now = !std::exchange(is_over_, true);
      if (ends_now) {
        owner_.attr("_end_epoch")();
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

void bind_epoch(nb::module_& module) {
  nb::class_<EpochObject>(module, "Epoch", nb::type_slots(epoch_slots))
      .def(nb::init<nb::object, nb::object>(), nb::arg("loader"), nb::arg("owner"))
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> typing.Iterator[typing.Any]"))
      .def("__next__", &EpochObject::next, nb::sig("def __next__(self) -> typing.Any"));
}

}  // namespace energon::python
