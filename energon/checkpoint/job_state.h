// The position of a whole job: the states of all its ranks.
//
// A job is put together from the states of its ranks, wherever those were saved; a rank takes its
// own out again. Pure functions over values.

#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"

namespace energon {

/// A value; comparable. From merge_states() or rescale().
struct SavableJobState {
  std::vector<SavableDataLoaderState> ranks;  ///< by rank, at least one

  bool operator==(const SavableJobState&) const = default;
};

/// The states of all ranks of a job, in any order, as one. Throws Error (kMismatch) that lists
/// every difference: ranks that are missing or there twice, other settings or data, other logical
/// shards, another step of the same epoch.
SavableJobState merge_states(std::vector<SavableDataLoaderState> ranks);

/// The state of `rank`. Throws Error (kMismatch) with both numbers if the job has no such rank.
const SavableDataLoaderState& state_of_rank(const SavableJobState& job, int rank);

/// The certificate of all that the job delivered.
Certificate certificate_of(const SavableJobState& job);

/// What a state file holds: a rank or a job.
using SavedState = std::variant<SavableDataLoaderState, SavableJobState>;

/// The state of `rank` in a file of that rank or of its job. Throws Error (kMismatch).
const SavableDataLoaderState& state_of_rank(const SavedState& saved, int rank);

/// File form and back; Errors as decode_loader_state().
std::string encode_job_state(const SavableJobState& job);
SavedState decode_saved_state(std::string_view bytes);

/// Writes atomically: the old file or the new one, never a torn one. Throws Error (kIo).
void write_job_state(const std::string& path, const SavableJobState& job);
/// Throws Error (kNotFound, kIo, and as decode_loader_state) with the path.
SavedState read_saved_state(const std::string& path);

/// For people.
nlohmann::ordered_json describe_job_state(const SavableJobState& job);

}  // namespace energon
