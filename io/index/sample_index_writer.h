// Writes `index.sqlite` (io/index/sample_index.h) and `index.uuid` of a dataset being prepared.
//
// The file is for a temporary name: it is written without a journal, so a writer that is killed
// leaves rubbish, and is renamed to its place by the caller after finish().

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/index/sample_index.h"

namespace energon {

/// Memory does not grow with the number of rows. Not thread-safe.
class SampleIndexWriter {
 public:
  /// Creates `path`, which must not exist and which no other process may open before finish():
  /// nothing is locked. `cache_bytes`: of memory for pages of the file; more is faster once the
  /// file has outgrown it. Throws Error (kIo).
  explicit SampleIndexWriter(std::string path,
                             std::uint64_t cache_bytes = std::uint64_t{128} << 20);
  ~SampleIndexWriter();
  SampleIndexWriter(const SampleIndexWriter&) = delete;
  SampleIndexWriter& operator=(const SampleIndexWriter&) = delete;

  /// In the order of shards and samples, which makes adding fast. Keys are unique in a dataset.
  /// Returns where `key` was added before, and adds nothing then.
  std::optional<SampleLocation> add_sample(std::string_view key, const SampleLocation& location);

  void add_part(std::int64_t tar_file_id, std::int64_t sample_index, std::string_view part,
                ByteRange content);

  /// Brings all to the disk. Nothing can be added after it.
  void finish();

 private:
  struct Connection;

  void count_row();

  const std::string path_;
  std::unique_ptr<Connection> connection_;
  std::int64_t rows_in_transaction_ = 0;
};

/// A random UUID (version 4) as 36 characters.
std::string make_uuid();

}  // namespace energon
