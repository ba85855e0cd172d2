// The file COMPLETE of a checkpoint, which says whether the checkpoint counts.
//
// Ranks that start must not each judge for themselves: while one looks, another may still be
// writing, and they would begin at different steps. So a checkpoint is decided once, by whoever is
// first: by the rank whose file was the last one, or by a rank that starts and finds it undecided.
// docs/formats/checkpoint.md gives the format.

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

  // Of a complete one.
  int world_size = 1;
  std::string digest = {};  ///< agreement_digest() of the configuration that all ranks share
  /// The same without its younger members, and of each of those that it has, by name: files of
  /// ranks may be of different versions. Empty in marks of earlier ones.
  std::string core = {};
  std::map<std::string, std::string> younger = {};
  /// Where the rank stood that wrote the mark; the others stood there, too. Nothing: it had ended
  /// its epoch, or its step is not known.
  std::optional<std::int64_t> epoch = std::nullopt;
  std::optional<std::int64_t> step_in_epoch = std::nullopt;

  // Of one that does not count.
  std::string reason = {};

  /// No two marks have the same, but those that take the place of the same one. Of a complete one
  /// of an earlier version: empty.
  std::string id = {};

  bool operator==(const CheckpointMark&) const = default;
};

/// That a checkpoint with this state of one of its ranks is complete.
CheckpointMark complete_mark(const SavableDataLoaderState& state);
/// That a checkpoint does not count.
CheckpointMark void_mark(std::string reason);

/// The mark to put in the place of `complete`, so that its checkpoint does not count any more.
/// Ranks that do so at the same time make the same one.
CheckpointMark void_mark_of(const CheckpointMark& complete, std::string reason);

/// A word that two marks have in common if they say the same.
std::string summary_of(const CheckpointMark& mark);

/// What is wrong with `state` as that of a rank of a checkpoint with this mark; empty: nothing.
std::string difference_to(const CheckpointMark& mark, const SavableDataLoaderState& state);

/// The mark in the folder `checkpoint`; nothing if it is undecided. Throws Error (kIo,
/// kCorruptData, kUnsupported) with the path.
std::optional<CheckpointMark> read_mark(const std::string& checkpoint);

/// Decides the checkpoint, unless it is: returns the mark that it then has. Throws Error as
/// read_mark().
CheckpointMark publish_mark(const std::string& checkpoint, const CheckpointMark& mark);

/// Puts `mark` in place of the one that is there. Throws Error (kIo).
void replace_mark(const std::string& checkpoint, const CheckpointMark& mark);

}  // namespace energon
