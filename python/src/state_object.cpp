#include "python/src/state_object.h"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "python/src/gil.h"
#include "python/src/option_reader.h"

namespace nb = nanobind;

namespace energon::python {
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
      "The position of the loader of one rank. bytes(state) are those of a state file, which the "
      "C++ library and the program energon read, too.")
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
          "Writes a state file: the old or the new one is there at any time.")
      .def(
          "describe",
          [](const SavableDataLoaderState& self) {
            return nb::module_::import_("json").attr("loads")(describe_loader_state(self).dump());
          },
          nb::sig("def describe(self) -> dict[str, typing.Any]"))
      .def_ro("epoch", &SavableDataLoaderState::epoch)
      .def_ro("batch_index", &SavableDataLoaderState::batch_index,
              "Batches that the rank delivered, in all epochs.")
      .def("__bytes__", encode)
      .def(
          "__eq__",
          [](const SavableDataLoaderState& self, nb::handle other) {
            return nb::isinstance<SavableDataLoaderState>(other) &&
                   self == nb::cast<const SavableDataLoaderState&>(other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const SavableDataLoaderState& self) { return nb::hash(encode(self)); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(
            self.type(), nb::make_tuple(encode(nb::cast<const SavableDataLoaderState&>(self))));
      });
}

}  // namespace energon::python
