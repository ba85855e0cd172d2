#include "python/src/item_maker.h"

#include <utility>

#include "energon/sample/restore_key.h"
#include "media/decode/content_kind.h"
#include "python/src/buffer_object.h"
#include "python/src/held_object.h"
#include "python/src/marked_values.h"
#include "python/src/origin_object.h"
#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

OriginObject origin_of(const Sample& sample, bool is_batch) {
  return {.keys = sample.keys,
          .restore_key = sample.restore_key,
          .sources = sample.sources,
          .place = sample.place,
          .is_batch = is_batch || sample.keys.size() > 1};
}

void set_item(nb::handle dict, const char* name, const nb::object& value) {
  static_cast<void>(PyDict_SetItemString(dict.ptr(), name, value.ptr()));
}

// Also for classes with slots and frozen ones.
void set_field(nb::handle object, const nb::object& name, const nb::object& value) {
  if (PyObject_GenericSetAttr(object.ptr(), name.ptr(), value.ptr()) != 0) {
    throw nb::python_error();
  }
}

nb::object new_instance(nb::handle type) {
  auto* const type_object = reinterpret_cast<PyTypeObject*>(type.ptr());
  const nb::tuple no_arguments;
  PyObject* made = type_object->tp_new(type_object, no_arguments.ptr(), nullptr);
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

// Lets a Sample or Batch tell where it came from; other objects stay as they are.
void set_origin(nb::handle object, const Sample& item, bool is_batch) {
  static constinit PackageAttribute type("_sample", "Item");
  if (nb::isinstance(object, type.get())) {
    set_field(object, nb::str("_origin"), nb::cast(origin_of(item, is_batch)));
  }
}

// Whether the part or field called `name` holds sound or video.
bool is_av(std::string_view name, bool is_typed) {
  return is_typed ? name == "video" || name == "audio"
                  : content_kind_of_name(name) == ContentKind::kAv;
}

nb::object av_decoder(const SharedBytes& file) {
  static constinit PackageAttribute type("av", "AVDecoder");
  return type(bytes_to_python(file));
}

constexpr const char* kOrigins[] = {"__key__", "__restore_key__", "__subflavors__", "__sources__"};

// The entry `name` of a dict: in a batch a list.
nb::object origin_entry(const Sample& item, std::string_view name, bool is_batch) {
  if (name == "__restore_key__") {
    return nb::cast(item.restore_key);
  }
  if (name == "__sources__") {
    return nb::cast(SourcesObject{item.sources});
  }
  const nb::list all = name == "__key__" ? keys_to_python(item.keys) : subflavors_to_python(item);
  return is_batch || nb::len(all) != 1 ? nb::object(all) : nb::object(all[0]);
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

// Bytes of a sample, or a list of them in a batch.
nb::object ItemMaker::field(std::string_view name, const Value& value, bool is_typed) const {
  if (av_ == AvKind::kDecoders) {
    if (const auto* file = std::get_if<SharedBytes>(&value.base())) {
      return is_av(name, is_typed) ? av_decoder(*file) : bytes_to_python(*file);
    }
    const auto* files = std::get_if<List>(&value.base());
    if (files != nullptr && !files->empty() &&
        std::holds_alternative<SharedBytes>(files->front().base()) && is_av(name, is_typed)) {
      nb::list decoders;
      for (const Value& file : *files) {
        const auto* bytes = std::get_if<SharedBytes>(&file.base());
        decoders.append(bytes == nullptr ? to_python(file, tensors_) : av_decoder(*bytes));
      }
      return decoders;
    }
  }
  return to_python(value, tensors_);
}

nb::object ItemMaker::with_fields(nb::handle type, const Mapping& fields, bool is_typed) const {
  nb::object object = new_instance(type);
  for (const auto& [name, value] : fields) {
    set_field(object, text_to_python(name), field(name, value, is_typed));
  }
  return object;
}

nb::object ItemMaker::crude(const Sample& sample) const {
  static constinit PackageAttribute type("_sample", "CrudeSample");
  nb::object object = new_instance(type.get());
  for (const char* name : kOrigins) {
    set_item(object, name, origin_entry(sample, name, false));
  }
  for (const auto& [name, value] : sample.fields) {
    const nb::object key = text_to_python(name);
    static_cast<void>(PyDict_SetItem(object.ptr(), key.ptr(), field(name, value, false).ptr()));
  }
  return object;
}

// Null if no function made the item.
nb::object ItemMaker::returned(const Sample& item, bool is_batch) const {
  if (PyObject* held = held_object(item)) {
    return nb::borrow(held);
  }
  if (item.fields.size() == 1 && item.fields.front().first == marks::kWhole) {
    return to_python(item.fields.front().second, tensors_);
  }
  const std::string* mark = mark_of(item.fields);
  if (mark == nullptr) {
    return {};
  }
  nb::object object = instance_to_python(*mark, item.fields, tensors_);
  if (PyDict_Check(object.ptr())) {
    for (const char* name : kOrigins) {
      if (PyDict_GetItemString(object.ptr(), name) != nullptr) {
        set_item(object, name, origin_entry(item, name, is_batch));
      }
    }
  }
  set_origin(object, item, is_batch);
  return object;
}

nb::object ItemMaker::sample(const Sample& sample) const {
  if (nb::object object = returned(sample, false)) {
    return object;
  }
  const std::string& type = type_of(sample);
  if (type.empty()) {
    return crude(sample);
  }
  static constinit PackageAttribute types("sample_types", "__dict__");
  nb::object object = with_fields(nb::object(types.get()[type.c_str()]), sample.fields, true);
  set_origin(object, sample, false);
  return object;
}

nb::object ItemMaker::batch(const Sample& batch) const {
  if (nb::object object = returned(batch, true)) {
    return object;
  }
  static constinit PackageAttribute type("_sample", "Batch");
  const bool is_typed = av_ == AvKind::kDecoders && !type_of(batch).empty();
  nb::object object = with_fields(type.get(), batch.fields, is_typed);
  set_origin(object, batch, true);
  return object;
}

}  // namespace energon::python
