#include "energon/distributed/rank_agreement.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/distributed/replies.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::size_t kMostLines = 40;

void check_place(const WorkerConfig& layout, const Comm& comm) {
  if (layout.rank != comm.rank() || layout.world_size != comm.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the loader is of rank {} of {}, the Comm of rank {} of {}",
                            layout.rank, layout.world_size, comm.rank(), comm.size()));
  }
}

// As bytes that every rank makes alike, whatever names are in it.
std::string text_of(const Config& common) {
  return common.dump(-1, ' ', false, Config::error_handler_t::replace);
}

}  // namespace

Config common_config(Config state_config) {
  state_config.erase("rank");
  return state_config;
}

std::string agreement_digest(const Config& common) {
  return to_hex(xxh3_64(as_bytes(text_of(common))));
}

void explain_disagreement(Comm& comm, const Config& common) {
  const std::vector<std::string> texts = comm.all_gather(text_of(common));
  const Config expected = Config::parse(texts.front());
  std::vector<std::string> lines;
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    std::vector<std::string> differences;
    if (texts[rank] != texts.front()) {
      compare_configs(Config::parse(texts[rank]), expected, "", differences);
    }
    for (const std::string& difference : differences) {
      lines.push_back(fmt::format("rank {}: {}", rank, difference));
    }
  }
  if (lines.empty()) {
    return;  // digests that only some ranks have
  }
  const std::size_t count = lines.size();
  if (count > kMostLines) {
    lines.resize(kMostLines);
    lines.push_back(fmt::format("and {} more", count - kMostLines));
  }
  throw Error(ErrorCode::kMismatch,
              fmt::format("the ranks do not read the same data under the same settings, so their "
                          "shares would overlap or leave gaps; to rank 0 differs:\n  {}",
                          fmt::join(lines, "\n  ")));
}

void check_ranks_agree(SavableDataLoader& loader, Comm& comm) {
  Config common;
  std::string reply;
  try {
    Config config = loader.save_state_rank().config;
    check_place(layout_of(config), comm);
    common = common_config(std::move(config));
    reply = success(agreement_digest(common));
  } catch (const Error& error) {
    reply = failure(error);
  } catch (const std::exception& error) {
    reply = failure(Error(ErrorCode::kUserFunction, error.what()));
  }
  const std::vector<std::string> replies = comm.all_gather(std::move(reply));
  bool agree = true;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    agree = result_of(rank, replies[rank]) == result_of(replies.front()) && agree;
  }
  if (!agree) {
    explain_disagreement(comm, common);
  }
}

}  // namespace energon
