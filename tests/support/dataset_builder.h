// Small datasets of numbered samples for tests: folders of plain tars.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/read/webdataset.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

/// Shard sizes of the 55-sample set for which the published order vectors were computed.
inline const std::vector<std::int64_t> kTens = {10, 10, 10, 10, 10, 5};
/// Shard sizes of Energon's own 55-sample test set.
inline const std::vector<std::int64_t> kFx55 = {2, 2, 3, 4, 10, 10, 10, 10, 4};

/// Key of sample `index`: six digits.
std::string numbered_key(std::int64_t index);

/// Writes tars `shard-000.tar` … into `folder`, with counts[i] samples in tar i. Sample i has the
/// key numbered_key(i) and a part `txt` with its index in decimal. If `payload_bytes` is not 0, it
/// also has a part `bin` with that many deterministic bytes.
void write_numbered_shards(const TempDir& folder, const std::vector<std::int64_t>& counts,
                           std::size_t payload_bytes = 0);

/// Does the same and opens the dataset.
std::shared_ptr<const Webdataset> numbered_dataset(const TempDir& folder,
                                                   const std::vector<std::int64_t>& counts,
                                                   std::size_t payload_bytes = 0,
                                                   const WebdatasetOptions& options = {});

/// Describes a prepared dataset, with all shards in the split part "train".
struct PreparedSpec {
  std::string name = {};                  ///< name of the folder
  std::vector<std::int64_t> counts = {};  ///< number of samples in each shard
  std::int64_t first = 0;                 ///< index, and so key, of the first sample
  /// Written before the number in the part; distinguishes datasets with the same keys.
  std::string prefix = {};
  std::string part = "txt";
  std::string split = {};  ///< content of split.yaml, by default all shards
};
void write_prepared(const TempDir& folder, const PreparedSpec& spec);

/// Writes a JSONL file `name` with `count` lines {"n": first}, {"n": first + 1}, …
void write_jsonl(const TempDir& folder, const std::string& name, std::int64_t count,
                 std::int64_t first = 0);

/// The indices of the samples in a sample or batch, from its keys.
std::vector<std::int64_t> numbers(const Sample& sample);

}  // namespace energon::testing
