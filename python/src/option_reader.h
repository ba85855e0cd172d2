// Options that Python passes as a dict.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include <fmt/format.h>

#include "io/overloaded.h"
#include "io/recipe/shuffle_over_epochs.h"
#include "python/src/python_names.h"
#include "wrappers/recipe/options.h"

namespace energon::python {

/// A path argument as a string. Throws TypeError, ValueError.
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

  /// Sets `option` if the dict has `name`. For a wrong type, throws TypeError that names the
  /// option.
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

  /// Sets the member of `row` if the dict has its name. Times are in seconds (None means no limit),
  /// choices are names, and shuffle_over_epochs may be None. For a wrong value, throws TypeError
  /// that names the keyword and the values that it takes.
  void take(const OptionRow& row, AllOptions& options) {
    const nanobind::str name(row.name.data(), row.name.size());
    if (!options_.contains(name)) {
      return;
    }
    const nanobind::object value = options_[name];
    const bool is_set =
        std::visit(Overloaded{[&](std::chrono::milliseconds* time) { return set(*time, value); },
                              [&](ShuffleOverEpochs* shuffle) { return set(*shuffle, value); },
                              [&](const ChoiceMember& choice) { return set(choice, value); },
                              [&](auto* member) { return nanobind::try_cast(value, *member); }},
                   row.member(options));
    if (!is_set) {
      const std::string keyword = spelled(row, OptionCaller::kPython);
      throw nanobind::type_error(fmt::format("{} cannot be {}; expected {}",
                                             keyword.empty() ? std::string(row.name) : keyword,
                                             nanobind::repr(value).c_str(), expected_value(row))
                                     .c_str());
    }
    PyDict_DelItem(options_.ptr(), name.ptr());
  }

  /// Throws TypeError for options that were not taken.
  void finish() const {
    if (!options_.empty()) {
      throw nanobind::type_error(
          fmt::format("unknown options {}", nanobind::repr(options_.keys()).c_str()).c_str());
    }
  }

 private:
  static bool set(std::chrono::milliseconds& time, nanobind::handle value) {
    std::optional<double> seconds;
    if (!nanobind::try_cast(value, seconds) || (seconds && !(*seconds >= 0))) {  // also nan
      return false;
    }
    constexpr double kLongest = 1e12;  // longer times exceed the clock and mean no limit
    time = !seconds || *seconds > kLongest
               ? std::chrono::milliseconds::max()
               : std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
    return true;
  }

  // Numbers out of range are refused where they are used, as in C++.
  static bool set(ShuffleOverEpochs& shuffle, nanobind::handle value) {
    std::optional<std::int64_t> epochs;
    if (!nanobind::try_cast(value, epochs)) {
      return false;
    }
    shuffle = epochs
                  ? shuffle_over_epochs_of(*epochs).value_or(ShuffleOverEpochs{.epochs = *epochs})
                  : ShuffleOverEpochs{.mode = ShuffleOverEpochs::Mode::kNone};
    return true;
  }

  static bool set(const ChoiceMember& choice, nanobind::handle value) {
    std::string text;
    if (!nanobind::try_cast(value, text)) {
      return false;
    }
    const auto name = std::find(choice.names.begin(), choice.names.end(), text);
    if (name == choice.names.end()) {
      return false;
    }
    *choice.value = static_cast<std::uint8_t>(name - choice.names.begin());
    return true;
  }

  nanobind::dict options_;
};

}  // namespace energon::python
