// The mark of a checkpoint, its file COMPLETE, which decides whether the checkpoint counts.
//
// Starting ranks must not judge a checkpoint independently: another rank may still be writing, and
// they could start at different steps. So each checkpoint is decided once: by the last rank to
// write its file, or by the first starting rank that finds it undecided. docs/formats/checkpoint.md
// gives the format.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "energon/checkpoint/loader_state.h"

namespace energon {

inline constexpr const char* kMarkName = "COMPLETE";

struct CheckpointMark {
  bool complete = false;

  // Only if complete.
  int world_size = 1;
  /// agreement_digest() of the configuration that all ranks share, without_side_files().
  std::string digest = {};
  /// The digest of each kind of side files (kSideFileDigests), by name. Ranks that started at
  /// different times may have found different kinds.
  std::map<std::string, std::string> side_files = {};
  /// The position of the rank that wrote the mark, which is the position of all ranks. nullopt if
  /// it had ended its epoch or its step is not known.
  std::optional<std::int64_t> epoch = std::nullopt;
  std::optional<std::int64_t> step_in_epoch = std::nullopt;

  // Only if not complete.
  std::string reason = {};  ///< why it does not count
  /// True if the file of some rank was missing when the checkpoint was first judged: the save was
  /// interrupted, so the checkpoint never counted.
  bool unfinished = false;

  /// Unique to each mark, but marks that replace the same mark have the same id.
  std::string id = {};

  bool operator==(const CheckpointMark&) const = default;
};

/// Makes the mark of a complete checkpoint from the state of one of its ranks.
CheckpointMark complete_mark(const SavableDataLoaderState& state);
/// Makes the mark of a checkpoint that does not count.
CheckpointMark void_mark(std::string reason);

/// Makes the mark that replaces `complete` so that its checkpoint no longer counts. Ranks that do
/// this at the same time make the same mark.
CheckpointMark void_mark_of(const CheckpointMark& complete, std::string reason);

/// A digest of everything in the mark except its id: equal contents have equal digests.
std::string summary_of(const CheckpointMark& mark);

/// The reason why `state` cannot be a rank's state in a checkpoint with this mark, or "" if it can.
std::string difference_to(const CheckpointMark& mark, const SavableDataLoaderState& state);

/// The mark in the folder `checkpoint`; nullopt if the checkpoint is undecided. Throws Error (kIo,
/// kCorruptData, kUnsupported) with the path.
std::optional<CheckpointMark> read_mark(const std::string& checkpoint);

/// Writes `mark` unless the checkpoint already has a mark. Returns the resulting mark. Throws Error
/// like read_mark().
CheckpointMark publish_mark(const std::string& checkpoint, const CheckpointMark& mark);

/// Replaces the existing mark with `mark`. Throws Error (kIo).
void replace_mark(const std::string& checkpoint, const CheckpointMark& mark);

}  // namespace energon
