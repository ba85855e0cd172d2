#include "energon/distributed/global_state.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/checkpoint/loader_state.h"
#include "energon/distributed/replies.h"
#include "io/error.h"

namespace energon {

std::optional<SavableJobState> save_state_global(SavableDataLoader& loader, Comm& comm,
                                                 int destination) {
  std::optional<Error> own_failure;
  std::string reply;
  try {
    reply = success(encode_loader_state(loader.save_state_rank()));
  } catch (const Error& error) {
    own_failure = error;
    reply = failure(error);
  }
  const std::vector<std::string> replies = comm.gather(std::move(reply), destination);
  if (own_failure) {
    throw Error(*own_failure);
  }
  std::vector<SavableDataLoaderState> states;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    states.push_back(decode_loader_state(result_of(rank, replies[rank])));
  }
  if (comm.rank() != destination) {
    return std::nullopt;
  }
  return merge_states(std::move(states));
}

void restore_state_global(SavableDataLoader& loader, Comm& comm,
                          const std::optional<SavableJobState>& job, int source) {
  std::vector<std::string> parts;
  if (comm.rank() == source) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    if (job && job->ranks.size() == ranks) {
      for (const SavableDataLoaderState& state : job->ranks) {
        parts.push_back(success(encode_loader_state(state)));
      }
    } else {
      const Error mismatch(
          ErrorCode::kMismatch,
          job ? fmt::format("the state is of a job of {} ranks, this one has {}: rescale it first",
                            job->ranks.size(), ranks)
              : fmt::format("rank {} was to give the state of the job and has none", source));
      parts.assign(ranks, failure(mismatch));
    }
  }
  const std::string part = comm.scatter(std::move(parts), source);
  const std::string_view own = result_of(part);
  std::string reply;
  try {
    loader.restore_state_rank(decode_loader_state(own));
    reply = success({});
  } catch (const Error& error) {
    reply = failure(error);
  }
  const std::vector<std::string> replies = comm.all_gather(std::move(reply));
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    result_of(rank, replies[rank]);
  }
}

}  // namespace energon
