#include "python/src/origin_object.h"

#include <nanobind/make_iterator.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <map>
#include <string>

#include <fmt/format.h>

#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

nb::object parse_subflavors(const std::string& json) {
  return nb::module_::import_("json").attr("loads")(json);
}

nb::object first_key(const OriginObject& self) {
  return self.keys.empty() ? nb::object(nb::str("")) : text_to_python(self.keys.front());
}

nb::object subflavors_of(const SourceShard& shard) {
  if (shard.subflavors == "{}") {
    return nb::dict();
  }
  // Few texts for many shards. Lives as long as the process.
  static auto& parsed = *new std::map<std::string, nb::object>();  // NOLINT: see above
  auto found = parsed.find(shard.subflavors);
  if (found == parsed.end()) {
    found = parsed.emplace(shard.subflavors, parse_subflavors(shard.subflavors)).first;
  }
  return nb::steal(PyDict_Copy(found->second.ptr()));
}

// Of the first source of each sample.
nb::list subflavors_of_samples(const std::vector<SampleSource>& sources) {
  nb::list all;
  std::uint32_t next = 0;
  for (const SampleSource& source : sources) {
    if (source.sample >= next) {
      all.append(subflavors_to_python(source));
      next = source.sample + 1;
    }
  }
  return all;
}

nb::object place_of(const OriginObject& self) {
  if (!self.place) {
    return nb::none();
  }
  return nb::make_tuple(self.place->logical_shard, self.place->epoch, self.place->turn);
}

const SampleSource& source_at(const SourcesObject& self, Py_ssize_t index) {
  const auto size = static_cast<Py_ssize_t>(self.sources.size());
  if (index < -size || index >= size) {
    throw nb::index_error("there is no such source");
  }
  return self.sources[static_cast<std::size_t>(index < 0 ? index + size : index)];
}

void bind_restore_key(nb::module_& module) {
  nb::class_<RestoreKey>(module, "RestoreKey",
                         "Rebuilds exactly one sample or batch: loader.restore_sample(key).")
      .def(nb::new_([](const std::string& text) { return RestoreKey::from_text(text); }),
           nb::arg("text"))
      .def("__str__", [](const RestoreKey& self) { return self.text(); })
      .def("__repr__",
           [](const RestoreKey& self) { return fmt::format("RestoreKey('{}')", self.text()); })
      .def(
          "__eq__",
          [](const RestoreKey& self, nb::handle other) {
            return nb::isinstance<RestoreKey>(other) && self == nb::cast<const RestoreKey&>(other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const RestoreKey& self) { return std::hash<std::string>()(self.bytes()); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(nb::str(self)));
      });
}

void bind_sources(nb::module_& module) {
  nb::class_<SampleSource>(module, "SourceInfo", "The place that data of a sample was read from.")
      .def_prop_ro("dataset_path",
                   [](const SampleSource& self) {
                     return self.shard ? self.shard->dataset_path : std::string();
                   })
      .def_prop_ro("shard_name",
                   [](const SampleSource& self) {
                     return self.shard ? self.shard->shard_name : std::string();
                   })
      .def_ro("index", &SampleSource::index_in_shard, "Of the sample in its shard.")
      .def_prop_ro("byte_offset", [](const SampleSource& self) { return self.bytes.offset; })
      .def_prop_ro("byte_size", [](const SampleSource& self) { return self.bytes.size; })
      .def("__repr__", [](const SampleSource& self) {
        return fmt::format("SourceInfo({}/{}, index {})",
                           self.shard ? self.shard->dataset_path : "",
                           self.shard ? self.shard->shard_name : "", self.index_in_shard);
      });
  nb::class_<SourcesObject>(module, "Sources", "A sequence of SourceInfo.")
      .def("__len__", [](const SourcesObject& self) { return self.sources.size(); })
      .def("__getitem__", source_at, nb::arg("index"))
      .def("__repr__", [](nb::handle self) { return nb::repr(nb::tuple(self)); })
      // The places are of this machine and this run: a pickle goes without them.
      .def("__reduce__", [](nb::handle) {
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type)), nb::tuple());
      });
}

}  // namespace

nb::list keys_to_python(const Keys& keys) {
  nb::list list;
  for (const std::string_view key : keys) {
    list.append(text_to_python(key));
  }
  return list;
}

nb::object subflavors_to_python(const SampleSource& source) {
  return source.shard ? subflavors_of(*source.shard) : nb::object(nb::dict());
}

nb::list subflavors_to_python(const Sample& item) { return subflavors_of_samples(item.sources); }

void bind_origin(nb::module_& module) {
  bind_restore_key(module);
  bind_sources(module);
  nb::class_<OriginObject>(module, "Origin")
      .def("keys", [](const OriginObject& self) { return keys_to_python(self.keys); })
      .def_ro("is_batch", &OriginObject::is_batch)
      .def("key", first_key)
      .def("restore_key", [](const OriginObject& self) { return self.restore_key; })
      .def("subflavors",
           [](const OriginObject& self) { return subflavors_of_samples(self.sources); })
      .def("sources", [](const OriginObject& self) { return SourcesObject{self.sources}; })
      .def("place", place_of, "(logical shard, epoch, turn), or None.");
}

}  // namespace energon::python
