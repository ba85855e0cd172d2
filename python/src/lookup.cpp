#include "python/src/lookup.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "energon/checkpoint/job_state.h"
#include "energon/read/find_sample.h"
#include "io/error.h"
#include "python/src/gil.h"
#include "python/src/interpreter_hooks.h"
#include "python/src/pipeline_object.h"
#include "wrappers/recipe/delivered_samples.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

using States = std::vector<SavableDataLoaderState>;

// Looks for signals now and then: it takes the GIL.
std::function<void()> cancel_check() {
  constexpr std::uint32_t kCalls = 256;
  return [check = signal_check(), calls = std::uint32_t{0}]() mutable {
    if (++calls % kCalls == 0) {
      check();
    }
  };
}

States read_states(const std::string& path) {
  SavedState saved = read_saved_state(path);
  if (auto* job = std::get_if<SavableJobState>(&saved)) {
    return std::move(job->ranks);
  }
  return {std::get<SavableDataLoaderState>(std::move(saved))};
}

FindOptions find_options(const std::optional<std::string>& cache_dir) {
  FindOptions options;
  options.open.cache_dir = cache_dir;
  options.check_cancelled = cancel_check();
  return options;
}

nb::object find_stored_sample(const std::string& path, const std::string& key,
                              const std::optional<std::string>& split,
                              const std::optional<std::string>& cache_dir) {
  FindOptions options = find_options(cache_dir);
  options.split = split;
  std::optional<FoundSample> found;
  {
    const ReleaseGil released;
    found = find_sample(path, key, options);
  }
  return ItemMaker(TensorKind::kEnergon, AvKind::kBytes, {}).sample(found->sample);
}

// Without the job's functions where these do not decide which samples are in an item.
PipelineOfConfig pipeline_of(const PipelineObject& pipeline) {
  return [&pipeline](const Config& config) {
    try {
      return pipeline.order_of(config);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) {
        throw;
      }
      return pipeline.make_pipeline;
    }
  };
}

std::vector<Delivery> which_step(const PipelineObject& pipeline, const States& states,
                                 const std::string& path, const std::string& key,
                                 const std::optional<std::string>& cache_dir) {
  const ReleaseGil released;
  const auto found = find_samples(path, key, find_options(cache_dir));
  return find_deliveries(states, pipeline_of(pipeline), locate_samples(found, *pipeline.data),
                         cancel_check());
}

std::vector<DeliveredStep> which_keys(const PipelineObject& pipeline, const States& states,
                                      std::int64_t step) {
  const ReleaseGil released;
  return keys_of_step(states, pipeline_of(pipeline), *pipeline.data, step, cancel_check());
}

void bind_deliveries(nb::module_& module) {
  nb::class_<Delivery>(module, "Delivery", "A sample in a batch that a rank delivered.")
      .def_ro("key", &Delivery::key)
      .def_ro("step", &Delivery::step, "Batches that the rank delivered before it, in all epochs.")
      .def_ro("rank", &Delivery::rank)
      .def_ro("position", &Delivery::position, "Of the sample in the batch, from 0.")
      .def_ro("restore_key", &Delivery::restore_key, "Of the batch.")
      .def("__repr__", [](const Delivery& self) {
        return fmt::format("Delivery('{}', step {}, rank {}, position {})", self.key, self.step,
                           self.rank, self.position);
      });
  nb::class_<DeliveredStep>(module, "DeliveredStep", "The samples that a step of a rank delivered.")
      .def_ro("rank", &DeliveredStep::rank)
      .def_ro("keys", &DeliveredStep::keys)
      .def_ro("restore_key", &DeliveredStep::restore_key, "Of the batch.")
      .def("__repr__", [](const DeliveredStep& self) {
        return fmt::format("DeliveredStep(rank {}, {} keys)", self.rank, self.keys.size());
      });
}

}  // namespace

void bind_lookup(nb::module_& module) {
  bind_deliveries(module);
  module.def("read_states", read_states, nb::arg("path"),
             "The states of all ranks in a state file of a rank or of a job.");
  module.def("find_sample", find_stored_sample, nb::arg("path"), nb::arg("key"),
             nb::arg("split").none(), nb::arg("cache_dir").none(),
             nb::sig("def find_sample(path: str, key: str, split: str | None, "
                     "cache_dir: str | None) -> typing.Any"));
  module.def("which_step", which_step, nb::arg("pipeline"), nb::arg("states"), nb::arg("path"),
             nb::arg("key"), nb::arg("cache_dir").none());
  module.def("which_keys", which_keys, nb::arg("pipeline"), nb::arg("states"), nb::arg("step"));
}

}  // namespace energon::python
