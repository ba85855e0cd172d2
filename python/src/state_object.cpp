// The Python classes LoaderState and JobState (SavableDataLoaderState and SavableJobState), and the
// import of Energon's states.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/megatron/energon_state.h"
#include "io/error.h"
#include "python/src/interpreter.h"
#include "python/src/loader_object.h"
#include "python/src/module.h"
#include "python/src/option_reader.h"
#include "python/src/pipeline_object.h"
#include "python/src/python_failure.h"
#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {

// --- LoaderState ---

namespace {

std::string_view text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes encode(const SavableDataLoaderState& state) {
  const std::string bytes = encode_loader_state(state);
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_state(nb::module_& module) {
  nb::class_<SavableDataLoaderState>(
      module, "LoaderState",
      "The position of the loader of one rank. bytes(state) has the format of a state file, which "
      "the C++ library and the program energon also read.")
      .def(nb::new_([](const nb::bytes& bytes) { return decode_loader_state(text_of(bytes)); }),
           nb::arg("data"))
      .def_static(
          "read", [](nb::handle path) { return read_loader_state(path_text(path)); },
          nb::arg("path"), nb::sig("def read(path: str | os.PathLike) -> LoaderState"),
          "Reads a state file.")
      .def(
          "write",
          [](const SavableDataLoaderState& self, nb::handle path) {
            write_loader_state(path_text(path), self);
          },
          nb::arg("path"), nb::sig("def write(self, path: str | os.PathLike) -> None"),
          "Writes a state file atomically: either the old or the new file exists at any time.")
      .def(
          "describe",
          [](const SavableDataLoaderState& self) {
            return nb::module_::import_("json").attr("loads")(describe_loader_state(self).dump());
          },
          nb::sig("def describe(self) -> dict[str, typing.Any]"))
      .def_ro("epoch", &SavableDataLoaderState::epoch)
      .def_ro("batch_index", &SavableDataLoaderState::batch_index,
              "Number of batches that the rank delivered, in all epochs.")
      .def("__bytes__", encode)
      .def(
          "__eq__",
          [](const SavableDataLoaderState& self, nb::handle other) {
            static constinit PackageAttribute bytes_in("states", "bytes_in");
            if (nb::isinstance<SavableDataLoaderState>(other)) {
              return self == nb::cast<const SavableDataLoaderState&>(other);
            }
            return PyDict_Check(other.ptr()) && encode(self).equal(bytes_in(other));
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const SavableDataLoaderState& self) { return nb::hash(encode(self)); })
      .def("__repr__",
           [](const SavableDataLoaderState& self) {
             return fmt::format("LoaderState(batch {}, epoch {})", self.batch_index, self.epoch);
           })
      .def(
          "__copy__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __copy__(self) -> LoaderState"))
      .def(
          "__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); },
          nb::sig("def __deepcopy__(self, memo: typing.Any, /) -> LoaderState"))
      // A pickle is a dict, which unpicklers that allow no classes of libraries read, too.
      .def(
          "__reduce__",
          [](nb::handle self) {
            static constinit PackageAttribute reduced("states", "reduced");
            return reduced(self);
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

// --- JobState ---

namespace {

nb::bytes encode_job(const SavableJobState& job) {
  const std::string bytes = encode_job_state(job);
  return nb::bytes(bytes.data(), bytes.size());
}

// Merges LoaderStates, their bytes or their dicts.
SavableJobState merged(nb::handle states) {
  static constinit PackageAttribute as_loader_state("states", "as_loader_state");
  std::vector<SavableDataLoaderState> ranks;
  for (const nb::handle state : states) {
    ranks.push_back(nb::cast<SavableDataLoaderState>(as_loader_state(state)));
  }
  return merge_states(std::move(ranks));
}

// The state of one rank can be a job of one rank.
SavableJobState job_in(SavedState saved) {
  if (auto* rank = std::get_if<SavableDataLoaderState>(&saved)) {
    return merge_states({std::move(*rank)});
  }
  return std::get<SavableJobState>(std::move(saved));
}

SavableJobState rescaled(const SavableJobState& job, int world_size, int num_workers,
                         std::optional<std::int64_t> micro_batch_size, bool allow_uneven) {
  return rescale(job, {.world_size = world_size,
                       .num_workers = num_workers,
                       .micro_batch_size = micro_batch_size,
                       .uneven = allow_uneven ? Uneven::kSpread : Uneven::kRefuse});
}

}  // namespace

void bind_job_state(nb::module_& module) {
  nb::class_<SavableJobState>(
      module, "JobState",
      "The position of a whole job: the states of all its ranks. bytes(job) has the format of a "
      "state file, which the C++ library and the program energon also read.")
      .def(nb::new_([](const nb::bytes& bytes) {
             return job_in(decode_saved_state(std::string_view(bytes.c_str(), bytes.size())));
           }),
           nb::arg("data"))
      .def_static("merge", merged, nb::arg("states"),
                  nb::sig("def merge(states: typing.Iterable[typing.Any]) -> JobState"),
                  "Merges the states of all ranks, in any order. StateMismatchError lists ranks "
                  "that are missing or duplicate, and states that do not belong together.")
      .def_static(
          "read", [](nb::handle path) { return job_in(read_saved_state(path_text(path))); },
          nb::arg("path"), nb::sig("def read(path: str | os.PathLike) -> JobState"),
          "Reads a state file.")
      .def(
          "write",
          [](const SavableJobState& self, nb::handle path) {
            write_job_state(path_text(path), self);
          },
          nb::arg("path"), nb::sig("def write(self, path: str | os.PathLike) -> None"),
          "Writes a state file atomically: either the old or the new file exists at any time.")
      .def_prop_ro("world_size", [](const SavableJobState& self) { return self.ranks.size(); })
      .def(
          "state_of_rank",
          [](const SavableJobState& self, int rank) { return state_of_rank(self, rank); },
          nb::arg("rank"))
      .def(
          "rescale", rescaled, nb::arg("world_size"), nb::arg("num_workers"),
          nb::arg("micro_batch_size") = nb::none(), nb::arg("allow_uneven") = false,
          "Returns the same position for other numbers of ranks and of workers per rank. No sample "
          "is lost or repeated.")
      .def(
          "describe",
          [](const SavableJobState& self) {
            return nb::module_::import_("json").attr("loads")(describe_job_state(self).dump());
          },
          nb::sig("def describe(self) -> dict[str, typing.Any]"))
      .def("__bytes__", encode_job)
      .def(
          "__eq__",
          [](const SavableJobState& self, nb::handle other) {
            return nb::isinstance<SavableJobState>(other) &&
                   self == nb::cast<const SavableJobState&>(other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const SavableJobState& self) { return nb::hash(encode_job(self)); })
      .def("__repr__",
           [](const SavableJobState& self) {
             return fmt::format("JobState({} ranks)", self.ranks.size());
           })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(),
                              nb::make_tuple(encode_job(nb::cast<const SavableJobState&>(self))));
      });
}

// --- Energon's states ---

namespace {

// The layout of the job. Its number of workers must equal that of the dataset, because a loader of
// the dataset would refuse the states otherwise.
WorkerConfig layout_of(const std::vector<EnergonRankState>& states, const WorkerConfig& config) {
  const WorkerConfig layout = energon_layout(states, config);
  if (layout.num_workers != config.num_workers) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("the states have {} workers, but the worker configuration of the dataset "
                    "has {}: use the same number, and change it later with "
                    "rescale_states()",
                    layout.num_workers, config.num_workers),
        {.path = states.front().path});
  }
  return layout;
}

std::vector<SavableDataLoaderState> import_all(const PipelineObject& pipeline,
                                               const WorkerConfig& config,
                                               const std::vector<std::string>& files,
                                               bool functions_skip) {
  const EnergonImportOptions import_options{.functions_skip = functions_skip,
                                            .check_cancelled = signal_check()};
  const ReleaseGil released;
  const std::vector<EnergonRankState> states =
      read_energon_states(files, import_options.check_cancelled);
  WorkerConfig layout = layout_of(states, config);
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
                                                  const nb::dict& options,
                                                  const std::vector<std::string>& files,
                                                  bool functions_skip) {
  const WorkerConfig config = read_loader_options(options).worker_config;
  forget_interrupt();
  try {
    return import_all(pipeline, config, files, functions_skip);
  } catch (const Error&) {
    if (raise_interrupt()) {  // in a function of the pipeline
      throw nb::python_error();
    }
    throw;
  }
}

// The state of the rank of `options`, in the JSON of energon_rank_state().
SavableDataLoaderState import_rank(const PipelineObject& pipeline, const nb::dict& options,
                                   const std::string& json) {
  const WorkerConfig given = read_loader_options(options).worker_config;
  forget_interrupt();
  try {
    const EnergonImportOptions import_options{.check_cancelled = signal_check()};
    const ReleaseGil released;
    const std::vector<EnergonRankState> states = {
        energon_rank_state(nlohmann::ordered_json::parse(json), "")};
    return import_energon_state(states.front(), pipeline.make_pipeline, layout_of(states, given),
                                import_options);
  } catch (const Error&) {
    if (raise_interrupt()) {  // in a function of the pipeline
      throw nb::python_error();
    }
    throw;
  }
}

}  // namespace

void bind_energon_import(nb::module_& module) {
  module.def("import_energon_rank", import_rank, nb::arg("pipeline"), nb::arg("options"),
             nb::arg("json"), "The state of the rank of the options.");
  module.def("import_energon_states", import_states, nb::arg("pipeline"), nb::arg("options"),
             nb::arg("files"), nb::arg("functions_skip"),
             "Imports the states of all ranks from files of Energon, or only the state of the rank "
             "in `options` if the files contain one state of several ranks.");
}

}  // namespace energon::python
