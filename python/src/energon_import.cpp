#include "python/src/energon_import.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "energon/checkpoint/loader_state.h"
#include "energon/megatron/energon_state.h"
#include "io/error.h"
#include "python/src/gil.h"
#include "python/src/interpreter_hooks.h"
#include "python/src/loader_object.h"
#include "python/src/pipeline_object.h"
#include "python/src/python_failure.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

// The layout of the job. Its number of workers must be that of the dataset, or a loader of it would
// refuse the states.
WorkerConfig layout_of(const std::vector<EnergonRankState>& states, const WorkerConfig& given) {
  const WorkerConfig layout = energon_layout(states, given);
  if (layout.num_workers != given.num_workers) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the states are of {} workers, the worker configuration of the dataset "
                            "has {}: give the same number, and change it later with "
                            "rescale_states()",
                            layout.num_workers, given.num_workers),
                {.path = states.front().path});
  }
  return layout;
}

std::vector<SavableDataLoaderState> import_all(const PipelineObject& pipeline,
                                               const WorkerConfig& given, const std::string& json,
                                               bool functions_skip) {
  const EnergonImportOptions import_options{.functions_skip = functions_skip,
                                            .check_cancelled = signal_check()};
  const ReleaseGil released;
  const std::vector<EnergonRankState> states = parse_energon_states(json);
  WorkerConfig layout = layout_of(states, given);
  std::vector<SavableDataLoaderState> imported;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states.size() > 1 || layout.world_size == 1) {
      layout.rank = static_cast<int>(i);
    }
    imported.push_back(
        import_energon_state(states[i], pipeline.make_pipeline, layout, import_options));
  }
  return imported;
}

std::vector<SavableDataLoaderState> import_states(const PipelineObject& pipeline,
                                                  const nb::dict& options, const std::string& json,
                                                  bool functions_skip) {
  const WorkerConfig given = read_loader_options(options).worker_config;
  forget_interrupt();
  try {
    return import_all(pipeline, given, json, functions_skip);
  } catch (const Error&) {
    if (raise_interrupt()) {  // in a function of the pipeline
      throw nb::python_error();
    }
    throw;
  }
}

}  // namespace

void bind_energon_import(nb::module_& module) {
  module.def("import_energon_states", import_states, nb::arg("pipeline"), nb::arg("options"),
             nb::arg("json"), nb::arg("functions_skip"),
             "The states of all ranks in what _energon_pickle.py wrote; of the rank of the options "
             "if there is one state and several ranks.");
}

}  // namespace energon::python
