#include "energon/distributed/rank_agreement.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/distributed/comm.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::size_t kMostLines = 40;

// A loader counts only the ranks of the Comm that read.
void check_place(const WorkerConfig& layout, const std::vector<int>& readers, int own_rank) {
  const auto own = std::find(readers.begin(), readers.end(), own_rank) - readers.begin();
  if (layout.rank != own || layout.world_size != std::ssize(readers)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the loader has rank {} of {}, but the Comm has rank {} of {}",
                            layout.rank, layout.world_size, own, readers.size()));
  }
}

// Replaces invalid UTF-8, which file names may contain, so that all ranks get the same text.
std::string text_of(const Config& common) {
  return common.dump(-1, ' ', false, Config::error_handler_t::replace);
}

}  // namespace

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
    return;  // only some ranks have digests
  }
  const std::size_t count = lines.size();
  if (count > kMostLines) {
    lines.resize(kMostLines);
    lines.push_back(fmt::format("and {} more", count - kMostLines));
  }
  throw Error(ErrorCode::kMismatch,
              fmt::format("the ranks do not read the same data under the same settings, so their "
                          "shares would overlap or leave gaps; differences from rank 0:\n  {}",
                          fmt::join(lines, "\n  ")));
}

std::vector<int> reading_ranks(const BatchSource& source, Comm& comm) {
  const std::vector<std::string> flags = comm.all_gather(source.keeps_position() ? "1" : "0");
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == "1") {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

void check_ranks_agree(BatchSource& source, Comm& comm) {
  const std::vector<int> readers = reading_ranks(source, comm);
  Config common;
  std::string reply = success({});
  if (source.keeps_position()) {
    try {
      Config config = source.state_config();
      check_place(layout_of(config), readers, comm.rank());
      common = common_config(std::move(config));
      reply = success(agreement_digest(common));
    } catch (...) {
      reply = failure(to_error(std::current_exception(), ""));
    }
  }
  const std::vector<std::string> replies = comm.all_gather(std::move(reply));
  std::vector<std::string> digests;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    digests.emplace_back(result_of(rank, replies[rank]));
  }
  const bool agree = std::all_of(digests.begin(), digests.end(),
                                 [&](const auto& digest) { return digest == digests.front(); });
  if (!agree && readers.size() == digests.size()) {
    explain_disagreement(comm, common);
  }
}

}  // namespace energon
