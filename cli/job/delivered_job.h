// What a job delivered, read from the dumps of its ranks (energon dump --certificate
// --logical-shards).

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/certificate.h"

namespace energon::cli {

/// All numbers are at most kLargestNumber (cli/show/json_lines.h), including the numbers of later
/// micro batches.
class DeliveredJob {
 public:
  /// Adds the content of the dump at `path`; warns of an incomplete last line. Throws Error: kIo,
  /// kNotFound, kInvalidArgument if it is not such a dump, kMismatch if it is from another job; the
  /// last two name the line.
  void read(const std::string& path);

  std::int64_t logical_shards() const { return logical_shards_.value_or(1); }
  const std::map<std::int64_t, DeliveredEpoch>& epochs() const { return epochs_; }

 private:
  void add(const nlohmann::json& line);
  DeliveredEpoch& epoch_of(std::int64_t epoch);
  void add_end_of_epoch(const nlohmann::json& line);

  std::optional<std::int64_t> logical_shards_;
  std::map<std::int64_t, DeliveredEpoch> epochs_;
};

}  // namespace energon::cli
