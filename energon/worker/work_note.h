// The work in progress in a worker's pipeline, in shared memory that can be read after its death.
// Used in the message about a worker that died or hangs in a user function.
//
// The thread that drives the pipeline is the only writer. A sequence word is odd while the note
// changes, so a reader gets a complete note or none. Layout: docs/formats/shared_memory.md.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/sample/sample.h"

namespace energon {

/// Text in shared memory, cut to its capacity of 8 * kWords bytes.
template <std::size_t kWords>
struct NotedText {
  std::atomic<std::uint64_t> size_bytes{0};
  std::array<std::atomic<std::uint64_t>, kWords> words{};
};

/// Initially zero, which means that no function is running.
struct WorkNote {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint64_t> stage{0};    ///< 1 + number of the stage; 0: no function is running
  std::atomic<std::uint64_t> samples{0};  ///< number that the function works on
  std::atomic<std::uint64_t> index_in_shard{0};  ///< 1 + index of the first sample; 0: not known
  NotedText<64> dataset;                         ///< of the first sample
  NotedText<31> shard;                           ///< of the first sample
  NotedText<31> keys;                            ///< as many as fit, one per line
};

/// A note that was read from shared memory; names are printable.
struct NotedWork {
  std::size_t stage = 0;        ///< its number
  std::string stage_name = {};  ///< filled by noted_work() (energon/worker/statistics_block.h)
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> index_in_shard = std::nullopt;
  std::string dataset = {};  ///< empty: not known
  std::string shard = {};
  std::vector<std::string> keys = {};  ///< the first ones
};

/// Returns nullopt if no function is running, or if the note is being changed.
std::optional<NotedWork> read_note(const WorkNote& note);

/// A number that changes with each call of a function that begins.
std::uint64_t works_begun(const WorkNote& note);

/// "in stage 'encode_sample' on sample '000012', number 12 of shard-001.tar", for a message.
std::string describe(const NotedWork& work);

/// Writes notes. Used by one thread.
class WorkNoteWriter {
 public:
  /// `note` must outlive the writer.
  explicit WorkNoteWriter(WorkNote& note) : note_(note) {}

  /// Notes that a function of stage number `stage` begins to work on `samples`. Costs a few stores;
  /// writes the names of dataset and shard only if the shard changed.
  void begin(std::size_t stage, std::span<const Sample> samples);
  void end();

 private:
  WorkNote& note_;
  std::shared_ptr<const SourceShard> shard_;  // whose names are in the note
};

}  // namespace energon
