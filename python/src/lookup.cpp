// Lookups without a loader: the datasets of a metadataset, samples by their keys, and the steps of
// a saved job that delivered them.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/read/exclude_samples.h"
#include "energon/read/find_sample.h"
#include "io/error.h"
#include "io/recipe/recipe.h"
#include "python/src/interpreter.h"
#include "python/src/module.h"
#include "python/src/pipeline_object.h"
#include "wrappers/recipe/delivered_samples.h"

namespace nb = nanobind;

namespace energon::python {

// --- The datasets of a metadataset ---

namespace {

const char* kind_name(LeafReference::Kind kind) {
  switch (kind) {
    case LeafReference::Kind::kWebdataset:
      return "webdataset";
    case LeafReference::Kind::kJsonl:
      return "jsonl";
    case LeafReference::Kind::kJoin:
      return "join";
  }
  return "";
}

nb::dict leaf_to_python(const LeafReference& leaf, const Recipe& recipe) {
  nb::dict aux;
  for (const AuxReference& reference : leaf.aux) {
    const bool is_folder = reference.kind == AuxReference::Kind::kFolder;
    const bool is_jsonl = reference.kind == AuxReference::Kind::kJsonl;
    aux[reference.name.c_str()] = nb::make_tuple(is_folder  ? "folder"
                                                 : is_jsonl ? "jsonl"
                                                            : "webdataset",
                                                 reference.path);
  }
  nb::dict result;
  result["kind"] = kind_name(leaf.kind);
  result["path"] = leaf.path;
  result["split_part"] = leaf.split_part;
  result["subflavors"] = leaf.subflavors->dump();
  result["aux"] = aux;
  result["weight"] =
      recipe.mixing == Mixing::kWeighted ? nb::object(nb::float_(leaf.weight)) : nb::none();
  result["repetitions"] =
      recipe.mixing == Mixing::kEpochized ? nb::object(nb::float_(leaf.repetitions)) : nb::none();
  return result;
}

nb::list read_recipe(const std::string& path, const std::string& split_part,
                     const std::optional<std::string>& dataset_config, bool lists_only) {
  const Recipe recipe = [&] {
    const ReleaseGil released;
    return load_recipe(path, split_part,
                       {.dataset_config = dataset_config, .lists_only = lists_only});
  }();
  nb::list leaves;
  for (const LeafReference& leaf : recipe.leaves) {
    leaves.append(leaf_to_python(leaf, recipe));
  }
  return leaves;
}

}  // namespace

void bind_recipe(nb::module_& module) {
  module.def(
      "read_recipe", read_recipe, nb::arg("path"), nb::arg("split_part"),
      nb::arg("dataset_config").none() = nb::none(), nb::arg("lists_only") = false,
      nb::sig("def read_recipe(path: str, split_part: str, "
              "dataset_config: str | None = None, lists_only: bool = False) -> "
              "list[dict[str, typing.Any]]"),
      "The datasets of a split, without opening them. With lists_only, they may be missing.");
}

// --- Samples and steps ---

namespace {

using States = std::vector<SavableDataLoaderState>;

// Checks for signals every 20 ms, because the check takes the GIL. Between two calls, functions may
// make a batch, or only its place in the order is computed.
std::function<void()> cancel_check() {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval(20);
  return [check = signal_check(), last = Clock::now()]() mutable {
    if (const Clock::time_point now = Clock::now(); now - last >= kInterval) {
      last = now;
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

// The first pipeline has none of the job's functions, which are needed only if they decide which
// samples are in an item, or if samples were left out.
JobPipelines pipelines_of(const PipelineObject& pipeline) {
  return {pipeline.order_of, [&pipeline](const Config&) { return pipeline.make_pipeline; }};
}

std::vector<Delivery> which_step(const PipelineObject& pipeline, const States& states,
                                 const std::string& path, const std::string& key,
                                 const std::optional<std::string>& cache_dir) {
  const ReleaseGil released;
  const auto found = find_samples(path, key, find_options(cache_dir));
  return find_deliveries(states, pipelines_of(pipeline), locate_samples(found, *pipeline.data),
                         cancel_check());
}

std::vector<DeliveredStep> which_keys(const PipelineObject& pipeline, const States& states,
                                      std::int64_t step) {
  const ReleaseGil released;
  return keys_of_step(states, pipelines_of(pipeline), *pipeline.data, step, cancel_check());
}

std::vector<ExcludedSample> exclude(const std::string& path, const std::vector<std::string>& keys,
                                    const std::string& output, bool is_split, bool is_remove,
                                    const std::string& cause,
                                    const std::optional<std::string>& cache_dir) {
  const ReleaseGil released;
  return exclude_samples(path, keys,
                         {.output = output,
                          .is_split = is_split,
                          .is_remove = is_remove,
                          .cause = cause,
                          .cache_dir = cache_dir,
                          .check_cancelled = cancel_check()});
}

void bind_exclude(nb::module_& module) {
  nb::class_<ExcludedSample>(module, "ExcludedSample",
                             "A sample or a shard that exclude() added or removed.")
      .def_ro("dataset", &ExcludedSample::dataset_path)
      .def_ro("shard", &ExcludedSample::shard_name)
      .def_ro("index", &ExcludedSample::index, "Index in the shard. A whole shard has none.")
      .def_ro("key", &ExcludedSample::key, "A whole shard has none.")
      .def_ro("line", &ExcludedSample::line, "Its line in a quarantine file, or its split entry.")
      .def_ro("is_changed", &ExcludedSample::is_changed,
              "False if it was listed before, or with remove= was not listed.")
      .def("__repr__", [](const ExcludedSample& self) {
        return fmt::format("ExcludedSample('{}{}{}')", self.shard_name, self.key ? "/" : "",
                           self.key.value_or(""));
      });
  module.def("exclude", exclude, nb::arg("path"), nb::arg("keys"), nb::arg("output"),
             nb::arg("split"), nb::arg("remove"), nb::arg("cause"), nb::arg("cache_dir").none());
}

void bind_deliveries(nb::module_& module) {
  nb::class_<Delivery>(module, "Delivery", "A sample in a batch that a rank delivered.")
      .def_ro("key", &Delivery::key)
      .def_ro("step", &Delivery::step,
              "Number of batches that the rank delivered earlier, in all epochs.")
      .def_ro("rank", &Delivery::rank)
      .def_ro("position", &Delivery::position, "Index of the sample in the batch, from 0.")
      .def_ro("restore_key", &Delivery::restore_key, "Restore key of the batch.")
      .def("__repr__", [](const Delivery& self) {
        return fmt::format("Delivery('{}', step {}, rank {}, position {})", self.key, self.step,
                           self.rank, self.position);
      });
  nb::class_<DeliveredStep>(module, "DeliveredStep", "The samples of one step of a rank.")
      .def_ro("rank", &DeliveredStep::rank)
      .def_ro("step", &DeliveredStep::step,
              "Counted from 0: step 321 is the 322nd batch of the rank.")
      .def_ro("is_delivered", &DeliveredStep::is_delivered,
              "False if the rank had not delivered the step when its state was saved.")
      .def_ro("keys", &DeliveredStep::keys)
      .def_ro("restore_key", &DeliveredStep::restore_key, "Restore key of the batch.")
      .def("__repr__", [](const DeliveredStep& self) {
        return fmt::format("DeliveredStep(rank {}, step {}{}, keys ['{}'])", self.rank, self.step,
                           self.is_delivered ? "" : " to come", fmt::join(self.keys, "', '"));
      });
}

}  // namespace

void bind_lookup(nb::module_& module) {
  bind_deliveries(module);
  bind_exclude(module);
  module.def("read_states", read_states, nb::arg("path"),
             "Reads the states of all ranks from a state file of a rank or of a job.");
  module.def("find_sample", find_stored_sample, nb::arg("path"), nb::arg("key"),
             nb::arg("split").none(), nb::arg("cache_dir").none(),
             nb::sig("def find_sample(path: str, key: str, split: str | None, "
                     "cache_dir: str | None) -> typing.Any"));
  module.def("which_step", which_step, nb::arg("pipeline"), nb::arg("states"), nb::arg("path"),
             nb::arg("key"), nb::arg("cache_dir").none());
  module.def("which_keys", which_keys, nb::arg("pipeline"), nb::arg("states"), nb::arg("step"));
}

}  // namespace energon::python
