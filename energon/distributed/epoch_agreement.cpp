#include "energon/distributed/epoch_agreement.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/distributed/rank_agreement.h"
#include "energon/distributed/replies.h"
#include "io/error.h"

namespace energon {
namespace {

// The share of a rank as the others see it.
struct ToldShare {
  std::optional<std::int64_t> batches;
  std::string digest;  // of the common settings
};

// Calls `own_share`. The reply holds the number of batches, which is empty if it is not known, a
// space and the digest.
std::string epoch_reply(const std::function<EpochShare()>& own_share, EpochShare& share) {
  try {
    share = own_share();
    const std::string number = share.batches ? std::to_string(*share.batches) : "";
    return success(fmt::format("{} {}", number, agreement_digest(share.common_settings)));
  } catch (...) {
    return failure(to_error(std::current_exception(), ""));
  }
}

ToldShare told_share(std::string_view text) {
  const std::size_t space = text.find(' ');
  ToldShare share;
  if (space > 0) {
    share.batches = std::stoll(std::string(text.substr(0, space)));
  }
  share.digest = text.substr(space + 1);
  return share;
}

// By rank. Throws the Error of the first rank that sent one.
std::vector<ToldShare> told_shares(const std::vector<std::string>& replies) {
  std::vector<ToldShare> shares;
  shares.reserve(replies.size());
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    shares.push_back(told_share(result_of(rank, replies[rank])));
  }
  return shares;
}

void check_all_numbers_known(const std::vector<ToldShare>& shares) {
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (!shares[rank].batches) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("rank {} does not know how many batches its epoch has left, so the ranks "
                      "cannot be made to end together: give epochs a length "
                      "(virtual_epoch_length) or leave out even_batches and drop_last",
                      rank));
    }
  }
}

}  // namespace

EpochLengths agree_on_epoch(Comm& comm, const std::function<EpochShare()>& own_share) {
  EpochShare share;
  const std::vector<ToldShare> shares = told_shares(comm.all_gather(epoch_reply(own_share, share)));
  check_all_numbers_known(shares);
  const bool agree = std::all_of(shares.begin(), shares.end(), [&](const ToldShare& other) {
    return other.digest == shares.front().digest;
  });
  if (!agree) {
    explain_disagreement(comm, share.common_settings);
  }
  const auto [fewest, most] = std::minmax_element(
      shares.begin(), shares.end(),
      [](const ToldShare& a, const ToldShare& b) { return *a.batches < *b.batches; });
  return {*share.batches, *fewest->batches, *most->batches};
}

}  // namespace energon
