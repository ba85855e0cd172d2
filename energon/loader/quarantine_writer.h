// Writes the quarantine file: which samples a run left out, so that the next one can leave them out
// from the start. docs/formats/quarantine.md gives the format; io/dataset/quarantine.h reads it.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "energon/stage/failure.h"
#include "io/unique_fd.h"

namespace energon {

/// Not thread-safe; several writers, also of other processes, may append to one file.
class QuarantineWriter {
 public:
  /// The file is opened, and made if it is not there, with the first line. An empty path: nothing
  /// is ever written.
  explicit QuarantineWriter(std::string path) : path_(std::move(path)) {}

  bool enabled() const { return !path_.empty(); }

  /// Whether it will be possible to write: better said at the start than at the first failure, days
  /// later. Throws Error (kNotFound, kIo).
  void check() const;

  /// One line for the sample or the broken shard of `report`, with one system call; nothing if this
  /// writer wrote it before, if the report has several samples, of which nobody knows the bad one,
  /// or no known place. Throws Error (kIo, kNotFound for a missing folder).
  void append(const FailureReport& report);

 private:
  void open();

  const std::string path_;
  UniqueFd file_;
  std::unordered_set<std::uint64_t> written_;  // hashes of samples and shards
};

}  // namespace energon
