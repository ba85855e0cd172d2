#include "energon/checkpoint/job_state.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

void check_ranks(const std::vector<SavableDataLoaderState>& ranks,
                 std::vector<std::string>& differences) {
  const int world_size = layout_of(ranks.front().config).world_size;
  std::map<int, int> times;
  for (const SavableDataLoaderState& rank : ranks) {
    ++times[layout_of(rank.config).rank];
  }
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!times.contains(rank)) {
      missing.push_back(rank);
    }
  }
  if (!missing.empty()) {
    differences.push_back(fmt::format("{} of {} ranks are missing: {}", missing.size(), world_size,
                                      fmt::join(missing, ", ")));
  }
  for (const auto& [rank, count] : times) {
    if (count > 1) {
      differences.push_back(fmt::format("rank {} occurs {} times", rank, count));
    }
    if (rank < 0 || rank >= world_size) {
      differences.push_back(fmt::format("rank {} is not one of {} ranks", rank, world_size));
    }
  }
}

void check_configs(const std::vector<SavableDataLoaderState>& ranks,
                   std::vector<std::string>& differences) {
  Config expected = ranks.front().config;
  if (!expected.contains("pipeline")) {
    differences.push_back(
        fmt::format("rank {}: config.pipeline: not set", expected.value("rank", 0)));
  }
  for (const SavableDataLoaderState& rank : ranks) {
    expected["rank"] = rank.config->value("rank", 0);
    std::vector<std::string> found;
    compare_configs(rank.config, expected, "", found);
    if (rank.micro_batch_size != ranks.front().micro_batch_size) {
      found.push_back("different micro batch size");
    }
    for (const std::string& difference : found) {
      differences.push_back(fmt::format("rank {}: {}", rank.config->value("rank", 0), difference));
    }
  }
}

void check_shards(const std::vector<SavableDataLoaderState>& ranks,
                  std::vector<std::string>& differences) {
  for (const SavableDataLoaderState& rank : ranks) {
    const WorkerConfig layout = layout_of(rank.config);
    std::vector<int> shards;
    shards.reserve(rank.checkpoints.size());
    for (const SavableDatasetCheckpoint& checkpoint : rank.checkpoints) {
      shards.push_back(checkpoint.logical_shard);
    }
    std::vector<int> expected;
    expected.reserve(static_cast<std::size_t>(layout.logical_shards_per_rank()));
    for (int local_index = 0; local_index < layout.logical_shards_per_rank(); ++local_index) {
      expected.push_back(layout.logical_shard(local_index));
    }
    if (shards != expected) {
      differences.push_back(fmt::format("rank {}: logical shards {}, expected {}", layout.rank,
                                        fmt::join(shards, ", "), fmt::join(expected, ", ")));
    }
  }
}

// The types and settings of the adapters of a rank, as text.
std::string adapters_of(const SavableDataLoaderState& rank) {
  std::string text;
  for (const State& adapter : rank.adapters) {
    text += text.empty() ? adapter.type : " over " + adapter.type;
    for (const auto& [name, value] : adapter.fields) {
      if (const auto* settings = std::get_if<std::string>(&value); name == "settings" && settings) {
        text += " " + *settings;
      }
    }
  }
  return text.empty() ? "none" : text;
}

void check_adapters(const std::vector<SavableDataLoaderState>& ranks,
                    std::vector<std::string>& differences) {
  const std::string expected = adapters_of(ranks.front());
  for (const SavableDataLoaderState& rank : ranks) {
    if (const std::string own = adapters_of(rank); own != expected) {
      differences.push_back(fmt::format("rank {}: adapters: {}, expected {}",
                                        rank.config->value("rank", 0), own, expected));
    }
  }
}

// Ranks in the same epoch must have taken the same number of its batches, except ranks that have no
// batches left.
void check_steps(const std::vector<SavableDataLoaderState>& ranks,
                 std::vector<std::string>& differences) {
  std::map<std::int64_t, std::map<std::int64_t, std::vector<int>>> ranks_at;  // epoch, step
  for (const SavableDataLoaderState& rank : ranks) {
    if (const std::optional<EpochStep> at = epoch_step(rank)) {
      ranks_at[at->epoch][at->step].push_back(rank.config->value("rank", 0));
    }
  }
  for (const auto& [epoch, steps] : ranks_at) {
    if (steps.size() > 1) {
      std::string text;
      for (const auto& [step, at_step] : steps) {
        text += fmt::format("{}{} at ranks {}", text.empty() ? "" : ", ", step,
                            fmt::join(at_step, ", "));
      }
      differences.push_back(fmt::format("different steps of epoch {}: {}", epoch, text));
    }
  }
}

}  // namespace

SavableJobState merge_states(std::vector<SavableDataLoaderState> ranks) {
  if (ranks.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "expected the state of at least one rank");
  }
  std::vector<std::string> differences;
  check_ranks(ranks, differences);
  check_configs(ranks, differences);
  check_shards(ranks, differences);
  check_adapters(ranks, differences);
  check_steps(ranks, differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("these states do not belong to one job at one step:\n  {}",
                            fmt::join(differences, "\n  ")));
  }
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.config->value("rank", 0) < b.config->value("rank", 0);
  });
  return {std::move(ranks)};
}

const SavableDataLoaderState& state_of_rank(const SavableJobState& job, int rank) {
  if (rank < 0 || rank >= std::ssize(job.ranks)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the state belongs to a job of {} ranks and has no rank {}; rescale it "
                            "to another layout",
                            job.ranks.size(), rank));
  }
  return job.ranks[static_cast<std::size_t>(rank)];
}

const SavableDataLoaderState& state_of_rank(const SavedState& saved, int rank) {
  if (const auto* job = std::get_if<SavableJobState>(&saved)) {
    return state_of_rank(*job, rank);
  }
  return std::get<SavableDataLoaderState>(saved);  // restoring reports a mismatch of the rank
}

Certificate certificate_of(const SavableJobState& job) {
  std::vector<CertificatePart> parts;
  for (const SavableDataLoaderState& rank : job.ranks) {
    for (const SavableDatasetCheckpoint& checkpoint : rank.checkpoints) {
      parts.push_back({checkpoint.logical_shard, checkpoint.certificate});
    }
  }
  return combine(parts);
}

nlohmann::ordered_json describe_job_state(const SavableJobState& job) {
  const Certificate certificate = certificate_of(job);
  nlohmann::ordered_json json;
  json["world_size"] = job.ranks.size();
  json["certificate"] = to_hex(certificate.digest);
  json["samples"] = certificate.samples;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const SavableDataLoaderState& rank : job.ranks) {
    nlohmann::ordered_json entry = describe_loader_state(rank);
    entry.erase("config");
    json["ranks"].push_back(std::move(entry));
  }
  json["config"] = job.ranks.front().config;
  json["config"].erase("rank");
  return json;
}

}  // namespace energon
