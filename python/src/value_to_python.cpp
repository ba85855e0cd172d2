#include "python/src/value_to_python.h"

#include <span>
#include <string>

#include "python/src/buffer_object.h"
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
    if (const std::string* kind = marks::kind_of_sealed(tuple)) {
      return unsealed(*kind, tuple.items);
    }
    return nb::steal(PyList_AsTuple((*this)(tuple.items).ptr()));
  }
  nb::object operator()(const BigInteger& integer) const {
    return nb::steal(PyLong_FromString(integer.digits().c_str(), nullptr, 10));
  }

  nb::object operator()(const Mapping& fields) const {
    if (const std::string* path = marks::class_of(fields)) {
      return instance_to_python(*path, dict(std::span(fields).subspan(1), name_to_python));
    }
    return dict(fields, text_to_python);
  }

 private:
  nb::dict dict(std::span<const std::pair<std::string, Value>> fields,
                nb::object (*to_name)(std::string_view)) const {
    nb::dict result;
    for (const auto& [name, value] : fields) {
      result[to_name(name)] = to_python(value, tensors_);
    }
    return result;
  }

  nb::object unsealed(std::string_view kind, const List& items) const {
    const Value& content = items[2];
    if (kind == marks::kDict) {
      return nb::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))(
          (*this)(std::get<List>(content.base())));
    }
    if (kind == marks::kPickle) {
      return unpickled(std::get<SharedBytes>(content.base()), std::get<List>(items[3].base()));
    }
    if (kind == marks::kInstance) {
      return to_python(content, tensors_);
    }
    return tensor_to_python(std::get<Tensor>(content.base()),
                            kind == marks::kNumpy ? TensorKind::kNumpy : TensorKind::kTorch);
  }

  static nb::object unpickled(const SharedBytes& data, const List& buffers) {
    static constinit PackageAttribute load("_values", "load");
    nb::list views;
    for (const Value& buffer : buffers) {
      views.append(writable_buffer(std::get<SharedBytes>(buffer.base())));
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

nb::object instance_to_python(const std::string& path, const nb::dict& fields) {
  static constinit PackageAttribute make("_values", "make_instance");
  return make(text_to_python(path), fields);
}

}  // namespace energon::python
