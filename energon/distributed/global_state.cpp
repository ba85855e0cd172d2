#include "energon/distributed/global_state.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/checkpoint/loader_state.h"
#include "energon/distributed/comm.h"
#include "energon/distributed/rank_agreement.h"
#include "io/error.h"

namespace energon {

std::optional<SavableJobState> save_state_global(BatchSource& source, Comm& comm, int destination) {
  std::optional<Error> own_failure;
  std::string reply = success({});
  if (source.keeps_position()) {
    try {
      reply = success(encode_loader_state(source.save_state_rank()));
    } catch (...) {
      own_failure = to_error(std::current_exception(), "");
      reply = failure(*own_failure);
    }
  }
  const std::vector<std::string> replies = comm.gather(std::move(reply), destination);
  if (own_failure) {
    throw Error(*own_failure);
  }
  std::vector<SavableDataLoaderState> states;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    if (const std::string_view state = result_of(rank, replies[rank]); !state.empty()) {
      states.push_back(decode_loader_state(state));
    }
  }
  if (comm.rank() != destination) {
    return std::nullopt;
  }
  return merge_states(std::move(states));
}

void restore_state_global(BatchSource& source, Comm& comm,
                          const std::optional<SavableJobState>& job, int root) {
  const std::vector<int> readers = reading_ranks(source, comm);
  std::vector<std::string> parts;
  if (comm.rank() == root) {
    parts.assign(static_cast<std::size_t>(comm.size()), success({}));
    if (job && job->ranks.size() == readers.size()) {
      for (std::size_t i = 0; i < readers.size(); ++i) {
        parts[static_cast<std::size_t>(readers[i])] = success(encode_loader_state(job->ranks[i]));
      }
    } else {
      const Error mismatch(
          ErrorCode::kMismatch,
          job ? fmt::format(
                    "the state belongs to a job of {} ranks, but this one has {}: rescale it first",
                    job->ranks.size(), readers.size())
              : fmt::format("expected the state of the job on rank {}, found none", root));
      parts.assign(parts.size(), failure(mismatch));
    }
  }
  const std::string part = comm.scatter(std::move(parts), root);
  const std::string_view own = result_of(part);
  std::string reply;
  try {
    if (source.keeps_position()) {
      source.restore_state_rank(decode_loader_state(own));
    }
    reply = success({});
  } catch (...) {
    reply = failure(to_error(std::current_exception(), ""));
  }
  const std::vector<std::string> replies = comm.all_gather(std::move(reply));
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    result_of(rank, replies[rank]);
  }
}

}  // namespace energon
