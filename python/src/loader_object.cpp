#include "python/src/loader_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "energon/loader/basic_data_loader.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/worker/statistics.h"
#include "python/src/epoch_object.h"
#include "python/src/gil.h"
#include "python/src/pipeline_object.h"
#include "python/src/python_failure.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

// nlohmann's JSON as objects of Python.
nb::object parse(const Config& config) {
  return nb::module_::import_("json").attr("loads")(config.dump());
}

// Whether functions run in this process, whose random numbers they must leave as they are.
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

  // If a function in this process was interrupted, the loader goes on from its position.
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

 private:
  const PipelineObject pipeline_;
  const nb::handle finish_;  // the Python loader holds it
  const bool shares_random_;
  std::atomic<int> waits_ = 0;
  std::unique_ptr<SavableDataLoader> loader_;
};

/// Makes batches again by their restore keys, without workers and without a position.
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
           "The next batch; None at the end of the epoch.")
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
  nb::class_<BasicLoaderObject>(module, "BasicLoader", "Makes batches again, without workers.")
      .def(nb::init<const PipelineObject&, const nb::dict&, nb::handle>(), nb::arg("pipeline"),
           nb::arg("options"), nb::arg("finish").none() = nb::none(),
           nb::sig("def __init__(self, pipeline: Pipeline, options: dict, "
                   "finish: typing.Any = None) -> None"))
      .def("restore_sample", &BasicLoaderObject::restore_sample, nb::arg("key"));
}

}  // namespace energon::python
