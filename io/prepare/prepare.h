// Prepares a folder of shards: writes `.nv-meta`, an index per shard and, on request, checksums.
//
// Energon reads the result as if it had prepared the folder itself (docs/formats/energon_files.md).
// Unlike Energon, prepare() rejects a damaged shard instead of indexing the rest of it. Everything
// is built in a staging folder next to .nv-meta. If prepare() fails or is stopped early, the folder
// is unchanged, and the next prepare() removes the leftovers. If it is killed while moving the
// files into place, the next process that opens or prepares the folder completes the move. So a
// folder always has either the old set of files or the new one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/dataset/split_config.h"
#include "io/recipe/typed_samples.h"
#include "io/tar/shard_scan.h"

namespace energon {

enum class Checksums { kNone, kWrite };

/// What to do if the folder is already prepared.
enum class Existing {
  kRefuse,
  kOverwrite,
  /// Scans only new shards if those of the earlier prepare are unchanged and come first; otherwise
  /// scans all, with a warning that gives the reason. The resulting files are the same either way.
  kUpdate,
};

struct PrepareOptions {
  /// Names of the shards, relative to the folder, in the order of the dataset. Unset means all
  /// shards in the folder, sorted.
  std::optional<std::vector<std::string>> shards = std::nullopt;

  /// Set at most one of the three; with none, every shard belongs to "train". `split` has the names
  /// of the shards of each part; a part may be empty.
  std::vector<SplitRatio> split_ratios = {};
  std::vector<SplitPattern> split_patterns = {};
  std::optional<SplitConfig> split = std::nullopt;

  /// Name of the file for the split: .yaml or .json.
  std::string split_config_name = "split.yaml";

  /// Shards whose name contains a match of one of these regular expressions are excluded.
  std::vector<std::string> exclude_regexes = {};

  Existing existing = Existing::kRefuse;

  /// Whether a tar without final zero blocks, or with other data after them, is a warning or an
  /// Error.
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// Whether to write digests of all samples (io/index/checksum_file.h). This reads every byte of
  /// the data.
  Checksums checksums = Checksums::kNone;

  /// Name of a minimal loader definition (crude samples) that is written into .nv-meta unless it
  /// exists, so that Energon can open the folder. Unset means that none is written.
  std::optional<std::string> dataset_yaml_name = "dataset.yaml";

  /// The content of the loader definition instead: the type of the samples and the parts of their
  /// fields. For each field, the first samples must have the parts of at least one alternative.
  /// Replaces an existing definition; with Existing::kRefuse, that is an Error.
  std::optional<TypedSamples> samples = std::nullopt;

  /// Where compressed shards are expanded (io/index/index_cache.h). Unset means
  /// default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;

  /// Number of shards scanned concurrently. Unset means one per core, at most 16. Each uses memory
  /// for the rows of up to three shards, about 100 bytes per part.
  std::optional<int> threads = std::nullopt;

  /// Stops the work after the shards that are being scanned, with Error (kCancelled).
  std::stop_token stop = {};
};

struct PrepareProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
  std::int64_t samples = 0;
  std::uint64_t bytes = 0;  ///< uncompressed size of the shards done
};

/// Called after each shard, in order, on the thread that called prepare().
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void on_progress(const PrepareProgress& progress) = 0;
};

struct PrepareReport {
  std::int64_t shards = 0;
  std::int64_t kept_shards = 0;  ///< unchanged since the earlier prepare, so not scanned
  std::int64_t samples = 0;
  std::int64_t parts = 0;
  std::uint64_t bytes = 0;  ///< uncompressed size of the shards; for kept shards, of their samples
  std::vector<std::string> part_names;  ///< distinct, sorted, the first 50 found
  SplitConfig split;                    ///< as written
  /// True if the scanned shards have no media metadata although the earlier prepare had some
  /// (energon prepare-media).
  bool lacks_media = false;
  std::vector<std::string> warnings;
};

/// Prepares the folder `path`. Throws Error:
///   kNotFound         no such folder, or no shards in it
///   kInvalidArgument  prepared already, being prepared by another process, bad options, two shards
///                     with one index name, a field of typed samples without a part, no shard for
///                     the split part with the largest ratio
///   kCorruptData      damaged or empty shards, or keys that occur twice; the message lists all of
///                     them with shard, byte and reason. With kUpdate: a damaged index.sqlite
///   kCancelled        `stop` was requested; the folder is unchanged
///   kIo               the folder cannot be written
PrepareReport prepare(const std::string& path, const PrepareOptions& options,
                      ProgressSink& progress);

// --- Before a prepare ---
//
// The parts of the first samples of a folder of shards: used to ask how typed samples are made from
// them, and to check the answer.

struct FirstPart {
  std::string name = {};
  std::uint64_t size_bytes = 0;
};

struct FirstSample {
  std::string shard = {};  ///< relative to the folder
  std::string key = {};
  std::vector<FirstPart> parts = {};  ///< in tar order
};

struct FirstSamplesOptions {
  std::optional<std::vector<std::string>> shards = std::nullopt;  ///< as PrepareOptions
  std::vector<std::string> exclude_regexes = {};                  ///< as PrepareOptions
  std::optional<std::string> cache_dir = std::nullopt;            ///< as PrepareOptions
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
