// One `metadataset.yaml`, version 1 or 2, as written: which datasets each split names, and how they
// are mixed.
//
// Only the file itself is read here; io/recipe/recipe.h follows the references and builds the
// hierarchy. Reading is strict: an unknown key is an error that names the place and the known keys.
// docs/formats/energon_files.md lists what is accepted.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/index/media_metadata.h"
#include "io/json.h"
#include "io/recipe/shuffle_over_epochs.h"

namespace energon {

// --- Subsets ---
//
// A contiguous range of a dataset's samples: `subset: {range: [start, end]}`. The range is either
// two sample numbers ("end" is the number of samples) or two percentages. The range of a leaf may
// be absolute; the ranges of enclosing metadatasets are percentages of their content.

/// Half-open range of sample numbers.
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const SampleRange&) const = default;
};

/// Selects the samples [begin, end), then the fractions [low, high) of those.
struct Subset {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end = std::nullopt;  ///< unset means all
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

// --- The file ---

/// How several datasets become one stream.
enum class Mixing : std::uint8_t {
  kSingle,     ///< one dataset
  kWeighted,   ///< `blend`: samples drawn by weight, without end
  kEpochized,  ///< `blend_epochized`: each sample repeated a number of times per epoch
};

/// Auxiliary files that a cooker looks up by name (io/store/file_store.h).
struct AuxReference {
  enum class Kind : std::uint8_t { kWebdataset, kFolder, kJsonl };
  std::string name = {};
  Kind kind = Kind::kWebdataset;
  std::string path = {};  ///< absolute

  bool operator==(const AuxReference&) const = default;
};

/// How to treat a sample of a join's first dataset that another dataset lacks.
enum class Nonmatch : std::uint8_t { kError, kSkip, kNone };
std::string_view to_string(Nonmatch nonmatch);  ///< as in the file: "error", "skip", "none"

/// One dataset of a join.
struct JoinColumn {
  std::string name = {};  ///< set in the mapping form, else empty
  std::string path = {};  ///< absolute; a prepared dataset
  /// As written; after load_recipe(), the effective one.
  std::string split_part = {};
  std::optional<std::string> split_config = std::nullopt;
  std::optional<std::string> dataset_config = std::nullopt;
  BoxedJson subflavors = {};             ///< a JSON object
  Nonmatch nonmatch = Nonmatch::kError;  ///< kError in the first column
};

/// The Python class or function that combines the samples of all columns into one.
struct Joiner {
  enum class Kind : std::uint8_t { kClass, kFunction };
  Kind kind = Kind::kClass;
  std::string module = {};  ///< may be empty
  std::string name = {};

  bool operator==(const Joiner&) const = default;
};

struct MetadatasetJoin {
  std::vector<JoinColumn> columns = {};  ///< at least one
  Joiner joiner = {};
};

/// A dataset's folder, plain tars, a JSONL file or another metadataset.
struct MetadatasetPath {
  std::string path = {};  ///< absolute
  std::optional<std::string> split_config = std::nullopt;
  std::optional<std::string> dataset_config = std::nullopt;
  std::vector<AuxReference> aux = {};
  std::optional<MediaCondition> media_filter =
      std::nullopt;  ///< our extension; only for prepared datasets
};

struct MetadatasetEntry {
  std::string place = {};  ///< place in the file, for messages: "splits.train.blend[1]"
  std::variant<MetadatasetPath, MetadatasetJoin> source = {};
  double factor = 1;  ///< weight or repetitions, as written; above 0
  std::optional<std::string> split_part = std::nullopt;  ///< unset means the name of the split
  BoxedJson subflavors = {};                             ///< a JSON object
  ShuffleOverEpochs shuffle = {};
  std::optional<Subset> subset = std::nullopt;
};

struct MetadatasetSplit {
  std::string name = {};
  Mixing mixing = Mixing::kSingle;
  std::vector<MetadatasetEntry> entries = {};   ///< exactly one if kSingle, never empty
  std::optional<Subset> subset = std::nullopt;  ///< only for a blend; percentages
};

struct Metadataset {
  std::string path = {};  ///< absolute
  int version = 2;        ///< 1 or 2
  std::vector<MetadatasetSplit> splits = {};

  /// The split `name`. Throws Error (kInvalidArgument) that lists the existing splits.
  const MetadatasetSplit& split(const std::string& name) const;
};

/// Parses `text`, the content of the file at `path`; relative paths in it are relative to its
/// folder. Throws Error: kInvalidArgument with the place in the document, kUnsupported for URLs.
Metadataset parse_metadataset(const std::string& text, const std::string& path);

/// Reads and parses the file at `path`. Also throws kNotFound, kIo.
Metadataset read_metadataset(const std::string& path);

}  // namespace energon
