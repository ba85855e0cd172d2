#include "python/src/item_maker.h"

#include <nanobind/make_iterator.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "media/decode/sample_decoder.h"
#include "python/src/buffer_object.h"
#include "python/src/interpreter.h"
#include "python/src/marked_values.h"
#include "python/src/module.h"
#include "python/src/python_names.h"
#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {

// --- An object between two functions ---

namespace {

constexpr std::string_view kPythonObject = "__held__";

class HeldObject final : public LazySource {
 public:
  explicit HeldObject(PyObject* object) : object_(std::make_shared<const OwnedObject>(object)) {}

  /// No bytes; their owner is the object.
  SharedBytes get() override { return {.view = {}, .owner = object_}; }
  std::string describe() const override { return "a Python object"; }

 private:
  const std::shared_ptr<const OwnedObject> object_;
};

}  // namespace

Mapping fields_of_object(PyObject* object) {
  Mapping fields;
  fields.emplace_back(kPythonObject, LazyBytes(std::make_shared<HeldObject>(object)));
  return fields;
}

PyObject* object_in(const Sample& sample) {
  if (sample.fields.size() != 1 || sample.fields.front().first != kPythonObject) {
    return nullptr;
  }
  const auto* lazy = std::get_if<LazyBytes>(&sample.fields.front().second.base());
  if (lazy == nullptr) {
    return nullptr;
  }
  return static_cast<const OwnedObject*>(lazy->get().owner.get())->get();
}

// --- The origin of an item ---

namespace {

/// The origin of a sample or batch: the private Python class Origin, an attribute of each Sample
/// and Batch.
///
/// A batch has keys and sources for each of its samples, and most training loops read none of them.
/// So they stay in the core until they are accessed.
struct OriginObject {
  Keys keys;
  RestoreKey restore_key;
  std::vector<SampleSource> sources;
  std::optional<BatchPlace> place;
  bool is_batch = false;
};

/// The Python class Sources: a sequence of SourceInfo.
struct SourcesObject {
  std::vector<SampleSource> sources;
};

nb::list keys_to_python(const Keys& keys) {
  nb::list list;
  for (const std::string_view key : keys) {
    list.append(text_to_python(key));
  }
  return list;
}

nb::object parse_subflavors(const std::string& json) {
  return nb::module_::import_("json").attr("loads")(json);
}

nb::object subflavors_of(const SourceShard& shard) {
  if (shard.subflavors == "{}") {
    return nb::dict();
  }
  // Few strings for many shards. Lives as long as the process.
  static auto& parsed = *new std::map<std::string, nb::object>();  // NOLINT: see above
  auto found = parsed.find(shard.subflavors);
  if (found == parsed.end()) {
    found = parsed.emplace(shard.subflavors, parse_subflavors(shard.subflavors)).first;
  }
  return nb::steal(PyDict_Copy(found->second.ptr()));
}

// The subflavors of the dataset that contains the sample.
nb::object subflavors_to_python(const SampleSource& source) {
  return source.shard ? subflavors_of(*source.shard) : nb::object(nb::dict());
}

// The subflavors of the first source of each sample.
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

// For each sample in the item, a separate dict with the subflavors of its dataset.
nb::list subflavors_to_python(const Sample& item) { return subflavors_of_samples(item.sources); }

nb::object first_key(const OriginObject& self) {
  return self.keys.empty() ? nb::object(nb::str("")) : text_to_python(self.keys.front());
}

nb::object place_of(const OriginObject& self) {
  if (!self.place) {
    return nb::none();
  }
  return nb::make_tuple(self.place->logical_shard, self.place->epoch, self.place->turn);
}

nb::object source_at(const SourcesObject& self, Py_ssize_t index) {
  const auto size = static_cast<Py_ssize_t>(self.sources.size());
  if (index < -size || index >= size) {
    throw nb::index_error("source index out of range");
  }
  return source_to_python(self.sources[static_cast<std::size_t>(index < 0 ? index + size : index)]);
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
  nb::class_<SourcesObject>(module, "Sources", "A sequence of SourceInfo.")
      .def("__len__", [](const SourcesObject& self) { return self.sources.size(); })
      .def("__getitem__", source_at, nb::arg("index"),
           nb::sig("def __getitem__(self, index: int) -> typing.Any"))
      .def("__repr__", [](nb::handle self) { return nb::repr(nb::tuple(self)); })
      // The locations are valid only on this machine and in this run, so pickles omit them.
      .def("__reduce__", [](nb::handle) {
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type)), nb::tuple());
      });
}

}  // namespace

nb::object source_to_python(const SampleSource& source) {
  static constinit PackageAttribute make("source_info", "make_source");
  const SourceShard none;
  const SourceShard& shard = source.shard ? *source.shard : none;
  return make(text_to_python(shard.dataset_path), source.index_in_shard,
              text_to_python(shard.shard_name), source.bytes.offset, source.bytes.size);
}

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

// --- ItemMaker ---

namespace {

// Moves its fields out of an rvalue.
template <class Item>
OriginObject origin_of(Item&& item, bool is_batch) {
  is_batch = is_batch || item.keys.size() > 1;
  return {.keys = std::forward<Item>(item).keys,
          .restore_key = std::forward<Item>(item).restore_key,
          .sources = std::forward<Item>(item).sources,
          .place = item.place,
          .is_batch = is_batch};
}

void set_item(nb::handle dict, nb::handle name, const nb::object& value) {
  if (PyDict_SetItem(dict.ptr(), name.ptr(), value.ptr()) != 0) {
    throw nb::python_error();
  }
}

// Also for classes with slots and frozen ones.
void set_field(nb::handle object, nb::handle name, const nb::object& value) {
  if (PyObject_GenericSetAttr(object.ptr(), name.ptr(), value.ptr()) != 0) {
    throw nb::python_error();
  }
}

nb::object new_instance(nb::handle type) {
  auto* const type_object = reinterpret_cast<PyTypeObject*>(type.ptr());
  const nb::tuple no_arguments;
  PyObject* result = type_object->tp_new(type_object, no_arguments.ptr(), nullptr);
  if (result == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(result);
}

// Whether the object keeps its origin: a Sample, Batch or DictBatch.
bool keeps_origin(nb::handle object) {
  static constinit PackageAttribute types("_sample", "ORIGIN_KEEPERS");
  return nb::isinstance(object, types.get());
}

// Sets the origin of an object whose class keeps it. This is the last step, so that nothing is lost
// if an earlier step is interrupted and all steps are repeated.
template <class Item>
void set_origin(nb::handle object, Item&& item, bool is_batch) {
  static constinit InternedName name("_origin");
  if (keeps_origin(object)) {
    set_field(object, name.get(), nb::cast(origin_of(std::forward<Item>(item), is_batch)));
  }
}

// Whether the part or field called `name` contains sound or video.
bool is_av(std::string_view name, bool is_typed) {
  return is_typed ? name == "video" || name == "audio"
                  : content_kind_of_name(name) == ContentKind::kAv;
}

nb::object av_decoder(const SharedBytes& file, std::optional<int> audio_sample_rate) {
  static constinit PackageAttribute type("av", "AVDecoder");
  return audio_sample_rate ? type(bytes_to_python(file), false, *audio_sample_rate)
                           : type(bytes_to_python(file));
}

// The names of the entries of a dict for its origin.
struct OriginNames {
  InternedName key{"__key__"};
  InternedName restore_key{"__restore_key__"};
  InternedName subflavors{"__subflavors__"};
  InternedName sources{"__sources__"};
};
constinit OriginNames origin_names;

nb::object key_entry(const Sample& item, bool is_batch) {
  if (is_batch || item.keys.size() != 1) {
    return keys_to_python(item.keys);
  }
  return text_to_python(item.keys.front());
}

nb::object subflavors_entry(const Sample& item, bool is_batch) {
  if (!is_batch && item.sources.size() == 1) {
    return subflavors_to_python(item.sources.front());
  }
  const nb::list all = subflavors_to_python(item);
  return is_batch || nb::len(all) != 1 ? nb::object(all) : nb::object(all[0]);
}

// The value of the entry or attribute `name`, one of the four above.
nb::object origin_entry(std::string_view name, const Sample& item, bool is_batch) {
  if (name == marks::kKey) {
    return key_entry(item, is_batch);
  }
  if (name == "__restore_key__") {
    return nb::cast(item.restore_key);
  }
  if (name == "__subflavors__") {
    return subflavors_entry(item, is_batch);
  }
  return nb::cast(SourcesObject{item.sources});
}

void set_origin_entries(nb::handle dict, const Sample& item) {
  OriginNames& names = origin_names;
  for (InternedName* name : {&names.key, &names.restore_key, &names.subflavors, &names.sources}) {
    const nb::handle text = name->get();
    set_item(dict, text, origin_entry(nb::cast<std::string_view>(text), item, false));
  }
}

bool is_null(const Value& value) { return std::holds_alternative<Null>(value.base()); }

// Whether a field of the origin has no value from a function.
bool is_unset(const Value& value) {
  const auto* of_batch = std::get_if<List>(&value.base());
  return of_batch != nullptr ? std::ranges::all_of(*of_batch, is_null) : is_null(value);
}

// The keys of a batch, some of which functions set.
nb::object set_keys(const Value& value, const Sample& item, TensorKind tensors) {
  nb::object keys = to_python(value, tensors);
  const auto* rows = std::get_if<List>(&value.base());
  if (rows == nullptr || rows->size() != item.keys.size()) {
    return keys;
  }
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (is_null((*rows)[i])) {
      nb::borrow<nb::list>(keys)[i] = text_to_python(item.keys[i]);
    }
  }
  return keys;
}

// The object of the class at `path` that a function returned, or that a batch function of the core
// made from such objects.
nb::object object_of(std::string_view path, const Sample& item, bool is_batch, TensorKind tensors) {
  nb::dict fields;
  nb::dict origins;
  for (const auto& [name, value] : std::span(item.fields).subspan(1)) {
    const nb::object text = name_to_python(name);
    if (!marks::is_origin(name)) {
      fields[text] = to_python(value, tensors);
    } else if (is_unset(value)) {
      origins[text] = origin_entry(name, item, is_batch);
    } else {
      fields[text] = set_keys(value, item, tensors);
    }
  }
  nb::object object = instance_to_python(std::string(path), fields);
  const bool is_dict = PyDict_Check(object.ptr());
  if (is_dict || !keeps_origin(object)) {
    for (const auto& [name, value] : origins) {
      is_dict ? set_item(object, name, nb::borrow(value))
              : set_field(object, name, nb::borrow(value));
    }
  }
  return object;
}

}  // namespace

const std::string& ItemMaker::type_of(const Sample& sample) const {
  static const std::string crude;
  bool has_types = false;
  for (const std::string& type : leaf_types_) {
    has_types = has_types || !type.empty();
  }
  if (!has_types) {
    return crude;
  }
  const auto refs = samples_in(sample.restore_key);
  return refs.empty() || refs.front().leaf >= leaf_types_.size() ? crude
                                                                 : leaf_types_[refs.front().leaf];
}

// The field of a sample, or a list with one value per sample for a batch.
nb::object ItemMaker::field(std::string_view name, const Value& value, bool is_typed) const {
  if (av_ == AvKind::kDecoders) {
    if (const auto* file = std::get_if<SharedBytes>(&value.base())) {
      return is_av(name, is_typed) ? av_decoder(*file, audio_sample_rate_) : bytes_to_python(*file);
    }
    const auto* files = std::get_if<List>(&value.base());
    if (files != nullptr && !files->empty() &&
        std::holds_alternative<SharedBytes>(files->front().base()) && is_av(name, is_typed)) {
      nb::list decoders;
      for (const Value& file : *files) {
        const auto* bytes = std::get_if<SharedBytes>(&file.base());
        decoders.append(bytes == nullptr ? to_python(file, tensors_)
                                         : av_decoder(*bytes, audio_sample_rate_));
      }
      return decoders;
    }
  }
  return to_python(value, tensors_);
}

nb::object ItemMaker::with_fields(nb::handle type, const Mapping& fields, bool is_typed) const {
  nb::object object = new_instance(type);
  for (const auto& [name, value] : fields) {
    set_field(object, name_to_python(name), field(name, value, is_typed));
  }
  return object;
}

nb::object ItemMaker::crude(const Sample& sample) const {
  static constinit PackageAttribute type("_sample", "CrudeSample");
  nb::object object = new_instance(type.get());
  set_origin_entries(object, sample);
  for (const auto& [name, value] : sample.fields) {
    set_item(object, name_to_python(name), field(name, value, false));
  }
  return object;
}

// The object is null if no function made the item.
ItemMaker::Result ItemMaker::returned(const Sample& item, bool is_batch) const {
  if (PyObject* object = object_in(item)) {
    return {.object = nb::borrow(object)};
  }
  if (item.fields.size() == 1 && item.fields.front().first == marks::kWhole) {
    return {.object = to_python(item.fields.front().second, tensors_), .wants_origin = true};
  }
  const std::string* path = marks::class_of(item.fields);
  if (path == nullptr) {
    return {};
  }
  const bool is_native_batch = std::holds_alternative<List>(item.fields.front().second.base());
  const bool is_dict_batch = is_native_batch && *path == marks::kDictClass;
  return {.object = object_of(is_dict_batch ? "energon_cpp._sample:DictBatch" : *path, item,
                              is_batch, tensors_),
          .wants_origin = true};
}

ItemMaker::Result ItemMaker::sample_result(const Sample& sample) const {
  if (Result result = returned(sample, false); result.object.is_valid()) {
    return result;
  }
  const std::string& type = type_of(sample);
  if (type.empty()) {
    return {.object = crude(sample)};
  }
  static constinit PackageAttribute types("sample_types", "__dict__");
  return {.object = with_fields(nb::object(types.get()[type.c_str()]), sample.fields, true),
          .wants_origin = true};
}

ItemMaker::Result ItemMaker::batch_result(const Sample& batch) const {
  if (Result result = returned(batch, true); result.object.is_valid()) {
    return result;
  }
  static constinit PackageAttribute type("_sample", "Batch");
  const bool is_typed = av_ == AvKind::kDecoders && !type_of(batch).empty();
  return {.object = with_fields(type.get(), batch.fields, is_typed), .wants_origin = true};
}

nb::object ItemMaker::sample(const Sample& sample) const {
  Result result = sample_result(sample);
  if (result.wants_origin) {
    set_origin(result.object, sample, false);
  }
  return std::move(result.object);
}

nb::object ItemMaker::batch(const Sample& batch) const {
  Result result = batch_result(batch);
  if (result.wants_origin) {
    set_origin(result.object, batch, true);
  }
  return std::move(result.object);
}

nb::object ItemMaker::delivered(Sample& item, bool is_batch) const {
  Result result = is_batch ? batch_result(item) : sample_result(item);
  if (result.wants_origin) {
    set_origin(result.object, std::move(item), is_batch);
  }
  return std::move(result.object);
}

}  // namespace energon::python
