// The sample index of a JSONL file: `x.jsonl.idx`, the same bytes as Energon's.
//
// N + 1 little-endian u64: where each sample begins, then the size of the file. Each line that is
// not blank is a sample and must be a JSON object; only its first and last characters are checked,
// the JSON is not parsed. Blank lines belong to the sample before them, leading ones to the first
// sample. docs/formats/energon_files.md gives the layout.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

/// Immutable after construction, so safe to share between threads. Holds 8 bytes per sample.
class JsonlIndex {
 public:
  /// Reads `index_path`, the index of a JSONL file of `jsonl_size` bytes. Throws Error: kNotFound,
  /// kIo, kCorruptData if it is not the index of such a file.
  static JsonlIndex load(const std::string& index_path, std::uint64_t jsonl_size);

  /// Checks `entries` as load() does; `index_path` is named in the error.
  static JsonlIndex from_entries(std::vector<std::uint64_t> entries, std::uint64_t jsonl_size,
                                 const std::string& index_path = {});

  std::int64_t sample_count() const { return static_cast<std::int64_t>(entries_.size()) - 1; }

  /// The line of sample `i` with its end of line and the blank lines that belong to it. Throws
  /// Error (kInvalidArgument) unless 0 <= i < sample_count().
  ByteRange range(std::int64_t i) const;

  /// As stored: sample_count() + 1 offsets.
  std::span<const std::uint64_t> entries() const { return entries_; }

  /// XXH3-64 of the file's bytes.
  std::uint64_t digest() const;

 private:
  explicit JsonlIndex(std::vector<std::uint64_t> entries) : entries_(std::move(entries)) {}

  std::vector<std::uint64_t> entries_;  // at least two
};

/// The line of a sample without surrounding white space. `bytes` is the content of `range` in a
/// file of `file_size` bytes; `before` is the byte before it, if there is one. Throws Error
/// (kCorruptData) unless `bytes` is one whole line with the blank lines that belong to it: the
/// index of another file may point into the middle of lines.
std::string_view whole_line(std::string_view bytes, std::optional<char> before,
                            const ByteRange& range, std::uint64_t file_size);

/// The path of the index, next to the file: "x.jsonl" gives "x.jsonl.idx".
std::string jsonl_index_path(const std::string& jsonl_path);

/// Reads `jsonl` once, in blocks, and atomically replaces `index_path`, which gets the modification
/// time of `jsonl`. Returns the number of samples. Throws Error: kCorruptData with line and byte
/// for a line that is not a JSON object, or if there is no sample; kCancelled if `stop` was
/// requested; kIo.
std::int64_t write_jsonl_index(const FileSource& jsonl, const std::string& index_path,
                               const std::stop_token& stop = {});

/// How an older index proves that a file of `jsonl_size` bytes has shrunk: it lists samples past
/// the end of the file. Nullopt if it proves nothing or is not an index.
std::optional<std::string> jsonl_proof_of_shrinking(const std::string& old_index_path,
                                                    std::uint64_t jsonl_size);

/// The path of an index that fits `jsonl_path`. Uses the index next to the file if it has the
/// modification time of the file and ends where the file does. Otherwise builds one: next to the
/// file or, if that folder is not writable or does not preserve the time, in the cache folder
/// (io/index/index_cache.h; default_cache_dir() if unset). Any number of processes may do this at
/// once. Throws as write_jsonl_index(), and Error (kCorruptData) if an index next to the file
/// proves that the file has shrunk; that index is kept.
std::string ensure_jsonl_indexed(const std::string& jsonl_path,
                                 const std::optional<std::string>& cache_dir);

}  // namespace energon
