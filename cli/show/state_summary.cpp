#include "cli/show/state_summary.h"

#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/output.h"
#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/state_config.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

std::string describe_batches(std::int64_t count) {
  return count == 1 ? "1 batch" : with_separators(count) + " batches";
}

std::string describe_batch_size(const SavableDataLoaderState& state) {
  if (!state.micro_batch_size) {
    return "not batched";
  }
  const auto wanted = micro_batch_size(state.config).value_or(*state.micro_batch_size);
  return wanted == *state.micro_batch_size
             ? std::to_string(wanted)
             : fmt::format("{}, from now on {}", *state.micro_batch_size, wanted);
}

void append_shards(std::string& text, const SavableDataLoaderState& state) {
  if (has_own_position(state.config)) {
    return;  // its batches are not counted by logical shard
  }
  for (const SavableDatasetCheckpoint& shard : state.streams) {
    append(text, "  logical shard {}: {} delivered ({}), epoch {}\n", shard.logical_shard,
           describe_batches(shard.index + shard.offset),
           shard.state ? fmt::format("state after {}, {} to skip", shard.index, shard.offset)
                       : fmt::format("from the start, {} to skip", shard.offset),
           shard.turn.epoch);
  }
}

void append_rank(std::string& text, const SavableDataLoaderState& state) {
  append(text, "delivered:   {} of this rank\n", describe_batches(state.batch_index));
  append(text, "epoch:       {}{}\n", state.epoch, state.epoch_finished ? ", finished" : "");
  append(text, "next worker: {} of {}\n", state.next_worker_id, state.streams.size());
  append_shards(text, state);
}

void append_source(std::string& text, const SavableDataLoaderState& state,
                   const Certificate& certificate) {
  if (!is_state_of_loader(state)) {
    append(text, "state of:    {}\n", source_kind(state));
  }
  append(text, "batch size:  {}\n", describe_batch_size(state));
  append(text, "certificate: {}\n", to_hex(certificate.digest));
}

}  // namespace

bool is_state_of_loader(const SavableDataLoaderState& state) {
  return state.adapters.empty() && !has_own_position(state.config);
}

std::string summarize_state(const SavedState& saved, const std::string& file) {
  std::string text;
  if (const auto* rank = std::get_if<SavableDataLoaderState>(&saved)) {
    append(text, "saved loader state: {}\n", printable(file));
    append_source(text, *rank, certificate_of(*rank));
    append_rank(text, *rank);
    return text;
  }
  const auto& job = std::get<SavableJobState>(saved);
  append(text, "saved state of a job of {} ranks: {}\n", job.ranks.size(), printable(file));
  append_source(text, job.ranks.front(), certificate_of(job));
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    append(text, "rank {}\n", rank);
    append_rank(text, job.ranks[rank]);
  }
  return text;
}

}  // namespace energon::cli
