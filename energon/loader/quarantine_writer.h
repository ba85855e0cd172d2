// Writes the quarantine file, the list of samples that a run left out. The next run can then leave
// them out from the start. docs/formats/quarantine.md gives the format; io/dataset/quarantine.h
// reads it.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "energon/stage/failure.h"
#include "io/file.h"

namespace energon {

/// Not thread-safe. Several writers may append to one file, even from different processes.
class QuarantineWriter {
 public:
  /// The first append() opens the file and creates it if it does not exist. With an empty path
  /// nothing is ever written.
  explicit QuarantineWriter(std::string path) : path_(std::move(path)) {}

  bool enabled() const { return !path_.empty(); }

  /// Checks that the file can be written, so that a problem shows at the start and not at the first
  /// failure days later. Throws Error: kNotFound for a missing folder, kInvalidArgument for a FIFO
  /// or a socket, kIo.
  void check() const;

  /// Appends one line for the sample or the broken shard in `report`, with one system call. Writes
  /// nothing if this writer has written that line before, if the report has several samples (the
  /// bad one is unknown), or if their place is unknown. Throws Error (kIo, kNotFound for a missing
  /// folder).
  void append(const FailureReport& report);

 private:
  void open();

  const std::string path_;
  UniqueFd file_;
  std::unordered_set<std::uint64_t> written_;  // hashes of samples and shards
};

}  // namespace energon
