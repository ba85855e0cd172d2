// Encoded files for the benchmarks of decoding: in memory, and as the samples of prepared tars.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "energon/read/webdataset.h"
#include "io/bytes.h"

namespace energon::bench {

/// Makes the parts of sample `number`, as many as there are names.
using MakeParts = std::function<std::vector<std::string>(std::int64_t number)>;

/// Which samples there are.
struct MediaFilesSpec {
  std::string folder;              ///< of the tars; equal folders have equal samples
  std::vector<std::string> parts;  ///< what the names of the parts end with, such as "jpg"
  std::int64_t count = 0;          ///< of samples
};

/// Samples of media in four prepared tars; the key of a sample is its number. Thread-safe.
class MediaFiles {
 public:
  /// Makes the samples and their tars unless the folder is prepared already, and reads them all.
  /// Throws Error: kMismatch if the folder has another number of samples; what preparing, opening
  /// and reading throw.
  MediaFiles(const MediaFilesSpec& spec, const MakeParts& make);

  const std::string& folder() const { return spec_.folder; }
  std::int64_t count() const { return spec_.count; }

  /// The bytes of a part, as they are in the tars. Requires: both exist. Valid as long as this
  /// object.
  ByteView at(std::int64_t number, std::size_t part = 0) const;

  /// Throws Error as open_split().
  std::shared_ptr<const Webdataset> open() const;

 private:
  void read_all();

  const MediaFilesSpec spec_;
  std::vector<std::string> files_;  // sample by sample
};

/// The number of the sample with this key. Throws Error (kCorruptData) if it is none.
std::int64_t sample_number(std::string_view key);

}  // namespace energon::bench
