#include "python/src/value_to_python.h"

#include <span>
#include <string>

#include "python/src/buffer_object.h"
#include "python/src/dlpack_export.h"
#include "python/src/marked_values.h"
#include "python/src/python_names.h"
#include "python/src/tensor_object.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

class ValueWriter {
 public:
  explicit ValueWriter(TensorKind tensors) : tensors_(tensors) {}

  nb::object operator()(const SharedBytes& bytes) const { return bytes_to_python(bytes); }
  nb::object operator()(const std::string& text) const { return text_to_python(text); }
  nb::object operator()(std::int64_t integer) const { return nb::int_(integer); }
  nb::object operator()(double number) const { return nb::float_(number); }
  nb::object operator()(const Tensor& tensor) const { return tensor_to_python(tensor, tensors_); }
  nb::object operator()(const LazyBytes& lazy) const { return bytes_to_python(lazy.get()); }
  nb::object operator()(Null) const { return nb::none(); }
  nb::object operator()(bool truth) const { return nb::bool_(truth); }

  nb::object operator()(const List& list) const {
    nb::object result = nb::steal(PyList_New(static_cast<Py_ssize_t>(list.size())));
    for (std::size_t i = 0; i < list.size(); ++i) {
      PyList_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i),
                      to_python(list[i], tensors_).release().ptr());
    }
    return result;
  }

  nb::object operator()(const Tuple& tuple) const {
    return nb::steal(PyList_AsTuple((*this)(tuple.items).ptr()));
  }
  nb::object operator()(const BigInteger& integer) const {
    return nb::steal(PyLong_FromString(integer.digits().c_str(), nullptr, 10));
  }

  nb::object operator()(const Mapping& fields) const {
    if (const std::string* mark = mark_of(fields)) {
      return marked(*mark, fields);
    }
    return dict(fields);
  }

 private:
  nb::object dict(std::span<const std::pair<std::string, Value>> fields) const {
    nb::dict result;
    for (const auto& [name, value] : fields) {
      result[text_to_python(name)] = to_python(value, tensors_);
    }
    return result;
  }

  nb::object marked(const std::string& mark, const Mapping& fields) const {
    if (mark.find(':') != std::string::npos) {
      return instance_to_python(mark, fields, tensors_);
    }
    if (const auto* marks_of_batch = std::get_if<List>(&fields.front().second.base())) {
      return unbatched(*marks_of_batch, fields);
    }
    return single(mark, fields.at(1).second,
                  fields.size() > 2 ? std::get_if<List>(&fields[2].second.base()) : nullptr);
  }

  // What a batch function of the core made of marked mappings: a list of what they were.
  nb::object unbatched(const List& marks_of_batch, const Mapping& fields) const {
    const List& items = std::get<List>(fields.at(1).second.base());
    nb::list values;
    for (std::size_t i = 0; i < marks_of_batch.size(); ++i) {
      const List* buffers = nullptr;
      if (fields.size() > 2) {
        buffers = &std::get<List>(std::get<List>(fields[2].second.base()).at(i).base());
      }
      values.append(single(std::get<std::string>(marks_of_batch[i].base()), items.at(i), buffers));
    }
    return values;
  }

  nb::object single(std::string_view mark, const Value& items, const List* buffers) const {
    if (mark == marks::kDict) {
      return nb::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))(
          (*this)(std::get<List>(items.base())));
    }
    if (mark == marks::kPickle) {
      return unpickled(std::get<SharedBytes>(items.base()), *buffers);
    }
    return tensor_to_python(std::get<Tensor>(items.base()),
                            mark == marks::kNumpy ? TensorKind::kNumpy : TensorKind::kTorch);
  }

  static nb::object unpickled(const SharedBytes& data, const List& buffers) {
    static constinit PackageAttribute load("_values", "load");
    nb::list views;
    for (const Value& buffer : buffers) {
      views.append(
          nb::cast(BufferObject{.bytes = std::get<SharedBytes>(buffer.base()), .writable = true}));
    }
    return load(nb::bytes(data.text().data(), data.size()), views);
  }

  const TensorKind tensors_;
};

}  // namespace

nb::object to_python(const Value& value, TensorKind tensors) {
  return std::visit(ValueWriter(tensors), value.base());
}

nb::object tensor_to_python(const Tensor& tensor, TensorKind kind) {
  if (kind == TensorKind::kTorch) {
    static constinit PackageAttribute from_dlpack("_values", "torch_from_dlpack");
    return from_dlpack(dlpack_capsule(tensor, false));
  }
  nb::object object = nb::cast(TensorObject(tensor));
  if (kind == TensorKind::kNumpy && tensor.dtype != DType::kBFloat16) {
    static constinit PackageAttribute as_numpy("_values", "as_numpy");
    return as_numpy(object);
  }
  return object;
}

nb::object text_to_python(std::string_view text) {
  PyObject* result =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (result == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(result);
}

nb::object name_to_python(std::string_view name) {
  PyObject* text = text_to_python(name).release().ptr();
  PyUnicode_InternInPlace(&text);
  return nb::steal(text);
}

const std::string* mark_of(const Mapping& fields) {
  if (fields.empty() || fields.front().first != marks::name()) {
    return nullptr;
  }
  const Value* mark = &fields.front().second;
  if (const auto* of_batch = std::get_if<List>(&mark->base())) {
    mark = &of_batch->at(0);
  }
  return &std::get<std::string>(mark->base());
}

nb::object instance_to_python(const std::string& path, const Mapping& fields, TensorKind tensors) {
  static constinit PackageAttribute make("_values", "make_instance");
  nb::dict values;
  for (const auto& [name, value] : std::span(fields).subspan(1)) {
    values[name_to_python(name)] = to_python(value, tensors);
  }
  return make(text_to_python(path), values);
}

}  // namespace energon::python
