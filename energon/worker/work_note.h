// What the pipeline of a worker works on, in shared memory that outlives it: for the message about
// a worker that died or hangs in a function of the user.
//
// One writer, the thread that drives the pipeline. A sequence word is odd while the note changes,
// so a reader gets a whole note or none. Bytes: docs/formats/shared_memory.md.

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

/// Text in shared memory, cut to its room.
template <std::size_t kWords>
struct NotedText {
  std::atomic<std::uint64_t> size_bytes{0};
  std::array<std::atomic<std::uint64_t>, kWords> words{};
};

/// Zero at first: in no function.
struct WorkNote {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint64_t> stage{0};           ///< 1 + number of the stage; 0: in no function
  std::atomic<std::uint64_t> samples{0};         ///< that the function works on
  std::atomic<std::uint64_t> index_in_shard{0};  ///< 1 + that of the first; 0: not known
  NotedText<64> dataset;                         ///< of the first
  NotedText<31> shard;                           ///< of the first
  NotedText<31> keys;                            ///< of all as far as there is room, each on a line
};

/// A note as it was read; names are printable.
struct NotedWork {
  std::size_t stage = 0;        ///< its number
  std::string stage_name = {};  ///< filled by noted_work() (energon/worker/statistics_block.h)
  std::uint64_t samples = 0;
  std::optional<std::uint64_t> index_in_shard = std::nullopt;
  std::string dataset = {};  ///< empty: not known
  std::string shard = {};
  std::vector<std::string> keys = {};  ///< the first ones
};

/// Nothing if the pipeline is in no function, or was just changing the note.
std::optional<NotedWork> read_note(const WorkNote& note);

/// "in stage 'encode_sample' on sample '000012', number 12 of shard-001.tar", for a message.
std::string describe(const NotedWork& work);

/// Writes notes. For one thread.
class WorkNoteWriter {
 public:
  /// `note` must outlive the writer.
  explicit WorkNoteWriter(WorkNote& note) : note_(note) {}

  /// A function of stage number `stage` begins to work on `samples`. A few stores; the names of
  /// dataset and shard only where the shard is another one than before.
  void begin(std::size_t stage, std::span<const Sample> samples);
  void end();

 private:
  WorkNote& note_;
  std::shared_ptr<const SourceShard> shard_;  // whose names stand in the note
};

}  // namespace energon
