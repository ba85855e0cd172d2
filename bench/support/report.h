// The result of one benchmark program: a table for people, and JSON for the README.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/measure.h"

namespace energon::bench {

/// A row of the table.
struct Result {
  std::string name;
  std::string unit;
  Measurement measurement;
  /// More columns, such as {"bytes_per_second", …}; the name contains the unit.
  nlohmann::ordered_json more = nlohmann::ordered_json::object();
};

/// A target and the value that was reached.
struct Target {
  std::string name;
  std::string unit;
  double value = 0;
  double target = 0;
  enum class Direction { kAtLeast, kAtMost } direction = Direction::kAtLeast;

  bool met() const { return direction == Direction::kAtLeast ? value >= target : value <= target; }
};

class Report {
 public:
  /// Records the machine's data now. `name` is also the name of the JSON file.
  Report(std::string name, std::string question);

  void setting(const std::string& name, nlohmann::ordered_json value) { settings_[name] = value; }
  void add(Result result);
  void add(Target target);

  /// The table with machine, spread and targets.
  std::string text() const;
  /// Replaces `path`. Throws Error (kIo).
  void write_json(const std::string& path) const;

 private:
  const std::string name_;
  const std::string question_;
  const nlohmann::ordered_json machine_;
  nlohmann::ordered_json settings_ = nlohmann::ordered_json::object();
  std::vector<Result> results_;
  std::vector<Target> targets_;
};

/// Formats a number with three significant digits and a unit prefix: 1234567 is "1.23 M".
std::string humanize(double value);

}  // namespace energon::bench
