// Small datasets of numbered samples for tests: folders of plain tars.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/read/webdataset.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

/// Shard sizes of the 55-sample set in which the published order vectors were made.
inline const std::vector<std::int64_t> kTens = {10, 10, 10, 10, 10, 5};
/// Shard sizes of Energon's own 55-sample test set.
inline const std::vector<std::int64_t> kFx55 = {2, 2, 3, 4, 10, 10, 10, 10, 4};

/// Key of sample `index`: six digits.
std::string numbered_key(std::int64_t index);

/// Writes tars `shard-000.tar` … with these numbers of samples into `folder`. Sample i has the key
/// numbered_key(i) and the part `txt`, its number in decimal, filled up with `payload_bytes`
/// deterministic bytes in a part `bin` if not 0.
void write_numbered_shards(const TempDir& folder, const std::vector<std::int64_t>& counts,
                           std::size_t payload_bytes = 0);

/// The same, opened.
std::shared_ptr<const Webdataset> numbered_dataset(const TempDir& folder,
                                                   const std::vector<std::int64_t>& counts,
                                                   std::size_t payload_bytes = 0,
                                                   const WebdatasetOptions& options = {});

/// A dataset's folder below `folder`, prepared with all shards in the part "train".
struct PreparedSpec {
  std::string name = {};                  ///< of the folder
  std::vector<std::int64_t> counts = {};  ///< samples in each shard
  std::int64_t first = 0;                 ///< number, and so key, of the first sample
  /// Written in front of the number in the part; tells datasets with the same keys apart.
  std::string prefix = {};
  std::string part = "txt";
  std::string split = {};  ///< content of split.yaml, if another is wanted
};
void write_prepared(const TempDir& folder, const PreparedSpec& spec);

/// Lines {"n": first}, {"n": first + 1}, …
void write_jsonl(const TempDir& folder, const std::string& name, std::int64_t count,
                 std::int64_t first = 0);

/// The numbers of the samples in a sample or batch, from its keys.
std::vector<std::int64_t> numbers(const Sample& sample);

}  // namespace energon::testing
