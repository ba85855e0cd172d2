// The position of a whole job: the states of all its ranks.
//
// A job state is merged from the states of its ranks, wherever those were saved. Each rank extracts
// its own state from it. Pure functions over values.

#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"

namespace energon {

/// A value type, comparable. Made by merge_states() or rescale().
struct SavableJobState {
  std::vector<SavableDataLoaderState> ranks;  ///< by rank, at least one

  bool operator==(const SavableJobState&) const = default;
};

/// Merges the states of all ranks of a job, given in any order. Throws Error (kMismatch) that lists
/// every difference: missing or duplicate ranks, different settings, data or logical shards, or
/// different steps of the same epoch.
SavableJobState merge_states(std::vector<SavableDataLoaderState> ranks);

/// The state of `rank`. Throws Error (kMismatch) with both numbers if the job has no such rank.
const SavableDataLoaderState& state_of_rank(const SavableJobState& job, int rank);

/// The certificate of everything that the job delivered.
Certificate certificate_of(const SavableJobState& job);

/// The content of a state file: the state of a rank or of a job.
using SavedState = std::variant<SavableDataLoaderState, SavableJobState>;

/// The state of `rank`, from a file of that rank or of its job. Throws Error (kMismatch).
const SavableDataLoaderState& state_of_rank(const SavedState& saved, int rank);

/// Converts to the file form and back. Throws the same Errors as decode_loader_state().
std::string encode_job_state(const SavableJobState& job);
SavedState decode_saved_state(std::string_view bytes);

/// Writes atomically: a reader finds the old or the new file, never a mixture. Throws Error (kIo).
void write_job_state(const std::string& path, const SavableJobState& job);
/// Throws Error with the path: kNotFound, kIo, and those of decode_loader_state().
SavedState read_saved_state(const std::string& path);

/// A description for people.
nlohmann::ordered_json describe_job_state(const SavableJobState& job);

}  // namespace energon
