// A contiguous range of a dataset's samples: `subset: {range: [start, end]}` of a metadataset.
//
// The range is either two sample numbers ("end" is the number of samples) or two percentages. The
// range of a leaf may be absolute; the ranges of enclosing metadatasets are percentages of their
// content.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace energon {

/// Half-open range of sample numbers.
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

/// Selects the samples [begin, end), then the fractions [low, high) of those.
struct Subset {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end = std::nullopt;  ///< absent: all
  double low = 0;
  double high = 1;

  bool is_absolute() const { return begin != 0 || end.has_value(); }
  bool operator==(const Subset&) const = default;
};

/// Parses the two scalars of `range`: "10" "30", "10" "end", "20%" "80%", "20%" "end". Throws Error
/// (kInvalidArgument) if they are of different kinds, out of order or out of bounds.
Subset parse_subset(std::string_view start, std::string_view end);

/// The subset `outer` of the subset `inner`. Throws Error (kInvalidArgument) if `outer` is
/// absolute.
Subset compose(const Subset& inner, const Subset& outer);

/// The selected range of `sample_count` samples: begin + int(n · low) to begin + int(n · high),
/// where n is the size of the absolute range. Throws Error (kInvalidArgument) if the absolute range
/// ends past the data.
SampleRange resolve(const Subset& subset, std::int64_t sample_count);

}  // namespace energon
