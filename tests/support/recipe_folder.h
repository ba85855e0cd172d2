// A folder with prepared datasets and recipes (metadatasets) over them, for tests.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/dataset_builder.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

class RecipeFolder : public TempDir {
 public:
  explicit RecipeFolder(const std::vector<PreparedSpec>& datasets);

  /// Writes the metadataset `name` and returns its path. `train` is the YAML flow mapping of its
  /// split "train".
  std::string recipe(std::string_view train, std::string_view name = "m.yaml") const;
};

/// The data of Energon's test_dataset.py: 50 captions in two shards.
inline const std::vector<PreparedSpec> kCaptions = {{.name = "ds", .counts = {30, 20}}};
/// The data of Energon's metadataset tests: two datasets of 55 samples, with keys 0 to 54 and 100
/// to 154.
inline const std::vector<PreparedSpec> kTwoOf55 = {
    {.name = "ds1", .counts = kTens, .prefix = "a"},
    {.name = "ds2", .counts = kTens, .first = 100, .prefix = "b"}};

}  // namespace energon::testing
