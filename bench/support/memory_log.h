// How the memory and the descriptors of processes develop while they run.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/report.h"

namespace energon::bench {

/// One process that is looked at again and again.
class MemoryLog {
 public:
  MemoryLog(std::string name, int pid) : name_(std::move(name)), pid_(pid) {}

  /// Looks at the process now. Throws Error (kNotFound) if it has ended.
  void look();

  /// Adds own memory, shared memory and descriptors over time, with the medians of the four
  /// quarters; and as targets, that the last quarter has at most `growth` times the memory of the
  /// second, and not more descriptors. Requires: look() was called at least four times.
  void report(double growth, Report& report) const;

 private:
  const std::string name_;
  const int pid_;
  std::vector<double> own_bytes_;
  std::vector<double> shared_bytes_;
  std::vector<double> files_;
};

/// The medians of the first, second, third and last quarter of the values. Requires: at least four.
std::vector<double> quarters_of(const std::vector<double>& values);

}  // namespace energon::bench
