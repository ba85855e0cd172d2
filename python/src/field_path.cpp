#include "python/src/field_path.h"

#include <nanobind/nanobind.h>

#include <iterator>

#include <fmt/format.h>

namespace nb = nanobind;

namespace energon::python {

void FieldPath::refuse(const std::string& what) const {
  std::string text = fmt::format("field '{}' cannot be held: {}", text_, what);
  if (PyErr_Occurred() != nullptr) {
    const nb::python_error cause;
    text += fmt::format(": {}", nb::str(cause.value()).c_str());
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

FieldPath::Level::Level(FieldPath& path) : path_(path), size_(path.text_.size()) {
  if (path_.levels_ == kMostLevels) {
    path_.refuse(fmt::format("it is nested more than {} levels deep", kMostLevels));
  }
  ++path_.levels_;
}

FieldPath::Level::~Level() {
  path_.text_.resize(size_);
  --path_.levels_;
}

void FieldPath::Level::at(std::size_t index) {
  path_.text_.resize(size_);
  fmt::format_to(std::back_inserter(path_.text_), "[{}]", index);
}

void FieldPath::Level::at(std::string_view name) {
  path_.text_.resize(size_);
  if (size_ > 0) {
    path_.text_ += '.';
  }
  path_.text_ += name;
}

}  // namespace energon::python
