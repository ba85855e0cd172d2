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

/// Describes the samples.
struct MediaFilesSpec {
  std::string folder;              ///< folder of the tars; equal folders have equal samples
  std::vector<std::string> parts;  ///< names of the parts, such as "jpg"
  std::int64_t count = 0;          ///< of samples
};

/// Media samples in four prepared tars; the key of a sample is its index. Thread-safe.
class MediaFiles {
 public:
  /// Makes the samples and their tars unless the folder is prepared already, and reads them all.
  /// Throws Error: kMismatch if the folder has another number of samples; and the errors of
  /// preparing, opening and reading.
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

/// The index of the sample with this key. Throws Error (kCorruptData) if the key is not a number.
std::int64_t sample_number(std::string_view key);

}  // namespace energon::bench
