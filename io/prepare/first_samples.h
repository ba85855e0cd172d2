// What the first samples of a folder of shards have, before it is prepared: to ask how typed
// samples are made of them, and to check the answer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/recipe/typed_samples.h"

namespace energon {

struct FirstPart {
  std::string name = {};
  std::uint64_t size_bytes = 0;
};

struct FirstSample {
  std::string shard = {};  ///< relative to the folder
  std::string key = {};
  std::vector<FirstPart> parts = {};  ///< in the order of the tar
};

struct FirstSamplesOptions {
  std::vector<std::string> exclude_regexes = {};        ///< as PrepareOptions
  std::optional<std::string> cache_dir = std::nullopt;  ///< as PrepareOptions
  std::size_t max_samples = 1000;
};

/// The samples at the beginning of the first shard of `folder`; reads headers only. Throws Error:
/// kNotFound without shards, kCorruptData with shard and byte, kIo.
std::vector<FirstSample> first_samples(const std::string& folder,
                                       const FirstSamplesOptions& options = {});

/// The distinct names of the parts of `samples`, in order of first appearance.
std::vector<std::string> part_names_of(const std::vector<FirstSample>& samples);

/// Compares a field map with these names. Returns a warning for each part that does not occur.
/// Throws Error (kInvalidArgument), naming the field and the parts that do occur, if none of the
/// parts of an expression does.
std::vector<std::string> check_parts_occur(const FieldMap& map,
                                           const std::vector<std::string>& part_names);

}  // namespace energon
