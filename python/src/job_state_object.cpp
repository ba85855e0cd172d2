#include "python/src/job_state_object.h"

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

#include <nlohmann/json.hpp>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "python/src/option_reader.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

nb::bytes encode(const SavableJobState& job) {
  const std::string bytes = encode_job_state(job);
  return nb::bytes(bytes.data(), bytes.size());
}

// A file of one rank is the job of one rank, if it says so.
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
      "The position of a whole job: the states of all its ranks. bytes(job) are those of a state "
      "file, which the C++ library and the program energon read, too.")
      .def(nb::new_([](const nb::bytes& bytes) {
             return job_in(decode_saved_state(std::string_view(bytes.c_str(), bytes.size())));
           }),
           nb::arg("data"))
      .def_static("merge", merge_states, nb::arg("states"),
                  "Of the states of all ranks, in any order. StateMismatchError lists ranks that "
                  "are missing or doubled, and states that do not belong together.")
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
          "Writes a state file: the old or the new one is there at any time.")
      .def_prop_ro("world_size", [](const SavableJobState& self) { return self.ranks.size(); })
      .def(
          "state_of_rank",
          [](const SavableJobState& self, int rank) { return state_of_rank(self, rank); },
          nb::arg("rank"))
      .def("rescale", rescaled, nb::arg("world_size"), nb::arg("num_workers"),
           nb::arg("micro_batch_size") = nb::none(), nb::arg("allow_uneven") = false,
           "The same position on another number of ranks and of workers for each. No sample is "
           "lost or comes twice.")
      .def(
          "describe",
          [](const SavableJobState& self) {
            return nb::module_::import_("json").attr("loads")(describe_job_state(self).dump());
          },
          nb::sig("def describe(self) -> dict[str, typing.Any]"))
      .def("__bytes__", encode)
      .def(
          "__eq__",
          [](const SavableJobState& self, nb::handle other) {
            return nb::isinstance<SavableJobState>(other) &&
                   self == nb::cast<const SavableJobState&>(other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const SavableJobState& self) { return nb::hash(encode(self)); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(),
                              nb::make_tuple(encode(nb::cast<const SavableJobState&>(self))));
      });
}

}  // namespace energon::python
