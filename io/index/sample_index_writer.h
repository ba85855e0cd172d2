// Writes `index.sqlite` (io/index/sample_index.h) and `index.uuid` of a dataset being prepared.
//
// Write to a temporary name: the file is written without a journal, so a killed writer leaves an
// unusable file. After finish(), the caller renames the file to its place.

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
  /// Creates `path`, which must not exist. No other process may open it before finish(), because
  /// nothing is locked. `cache_bytes` is the memory for pages of the file; more is faster once the
  /// file is larger than that. Throws Error (kIo).
  explicit SampleIndexWriter(std::string path,
                             std::uint64_t cache_bytes = std::uint64_t{128} << 20);
  ~SampleIndexWriter();
  SampleIndexWriter(const SampleIndexWriter&) = delete;
  SampleIndexWriter& operator=(const SampleIndexWriter&) = delete;

  /// Adds a sample. Adding in the order of shards and samples is fast. Keys are unique in a
  /// dataset: if `key` was added before, returns its location and adds nothing.
  std::optional<SampleLocation> add_sample(std::string_view key, const SampleLocation& location);

  void add_part(std::int64_t tar_file_id, std::int64_t sample_index, std::string_view part,
                ByteRange content);

  /// Writes everything to disk. Nothing can be added afterwards.
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
