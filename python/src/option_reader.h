// Options that Python gives as a dict.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include <fmt/format.h>

#include "python/src/python_names.h"

namespace energon::python {

/// A path that a function of the module gets, as text. Throws TypeError, ValueError.
inline std::string path_text(nanobind::handle path) {
  static constinit PackageAttribute text("_shard_paths", "path_text");
  return nanobind::cast<std::string>(text(path));
}

/// Takes options out of a dict, one by one. Requires: the GIL.
class OptionReader {
 public:
  /// `options` is copied.
  explicit OptionReader(const nanobind::dict& options)
      : options_(nanobind::steal<nanobind::dict>(PyDict_Copy(options.ptr()))) {}

  /// Sets `option` if the dict has `name`. Throws TypeError that names the option for a wrong type.
  template <class Option>
  void take(const char* name, Option& option) {
    if (!options_.contains(name)) {
      return;
    }
    const nanobind::object value = options_[name];
    if (!nanobind::try_cast(value, option)) {
      throw nanobind::type_error(
          fmt::format("option '{}' cannot be {}", name, nanobind::repr(value).c_str()).c_str());
    }
    PyDict_DelItemString(options_.ptr(), name);
  }

  /// Throws TypeError for options that nobody took.
  void finish() const {
    if (!options_.empty()) {
      throw nanobind::type_error(
          fmt::format("unknown options {}", nanobind::repr(options_.keys()).c_str()).c_str());
    }
  }

 private:
  nanobind::dict options_;
};

}  // namespace energon::python
