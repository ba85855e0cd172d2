#include "energon/checkpoint/rescale_adapters.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

StateValue& field(State& node, std::string_view name) {
  const auto found = std::find_if(node.fields.begin(), node.fields.end(),
                                  [name](const auto& field) { return field.first == name; });
  if (found == node.fields.end()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the adapter {} in the state has no '{}'", node.type, name));
  }
  return found->second;
}

// Batches that the ranks which are in `epoch` handed out in it; those of one rank if they differ.
std::int64_t batches_in(const SavableJobState& job, std::size_t adapter, std::int64_t epoch) {
  std::int64_t batches = 0;
  for (const SavableDataLoaderState& rank : job.ranks) {
    const State& node = rank.adapters[adapter];
    if (node.integer("epoch") == epoch) {
      batches = std::max(batches, node.integer("batches"));
    }
  }
  return batches;
}

// As many batches of the new size.
std::int64_t batches_of_size(const SavableJobState& job, const JobLayout& layout,
                             std::int64_t batches) {
  const std::int64_t old_size = job.ranks.front().micro_batch_size.value_or(1);
  return batches * old_size / layout.micro_batch_size.value_or(old_size);
}

// Of old rank `rank`, counted round, or of the first that has some.
std::string first_batches_of(const SavableJobState& job, std::size_t adapter, int rank) {
  constexpr std::size_t kNone = sizeof(std::uint32_t);  // bytes of an empty list
  std::string bytes;
  for (std::size_t i = 0; i < job.ranks.size() && bytes.size() <= kNone; ++i) {
    const std::size_t old = (static_cast<std::size_t>(rank) + i) % job.ranks.size();
    bytes = job.ranks[old].adapters[adapter].bytes("first_batches");
  }
  return bytes;
}

State rescale_shard(const SavableJobState& job, std::size_t adapter, const JobLayout& layout,
                    int rank, std::int64_t epoch) {
  State node = job.ranks.front().adapters[adapter];
  const std::int64_t batches = batches_of_size(job, layout, batches_in(job, adapter, epoch)) *
                               std::ssize(job.ranks) / layout.world_size;
  field(node, "epoch") = epoch;
  field(node, "batches") = batches;
  field(node, "source_ended") = std::int64_t{0};  // a loader without batches says so itself
  field(node, "first_batches") = first_batches_of(job, adapter, rank);
  std::erase_if(node.fields, [](const auto& field) { return field.first == "repeated"; });
  const bool has_settings =
      std::any_of(node.fields.begin(), node.fields.end(),
                  [](const auto& field) { return field.first == "settings"; });
  Config settings;  // states of earlier versions have none
  if (has_settings) {
    settings = Config::parse(node.bytes("settings"), nullptr, false);
  }
  if (settings.is_object() && settings.contains("ranks") && !settings["ranks"].is_null()) {
    settings["ranks"] = layout.world_size;
    field(node, "settings") = settings.dump();
  }
  return node;
}

State rescale_dispatch(const SavableJobState& job, std::size_t adapter, const JobLayout& layout,
                       std::int64_t epoch) {
  if (layout.world_size != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("one rank of this job reads for all, however many there are: its "
                            "position is of one rank, it cannot be divided among {}",
                            layout.world_size));
  }
  State node = job.ranks.front().adapters[adapter];
  const std::int64_t old_size = job.ranks.front().micro_batch_size.value_or(1);
  const std::int64_t new_size = layout.micro_batch_size.value_or(old_size);
  field(node, "epoch") = epoch;
  field(node, "batches") = batches_of_size(job, layout, batches_in(job, adapter, epoch));
  field(node, "full_samples") = node.integer("full_samples") / old_size * new_size;
  return node;
}

State rescale_skip(const SavableJobState& job, std::size_t adapter) {
  State node = job.ranks.front().adapters[adapter];
  for (const SavableDataLoaderState& rank : job.ranks) {
    if (const std::int64_t left = rank.adapters[adapter].integer("left"); left > 0) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("each rank has {} batches still to skip, which are other ones on "
                              "another layout: take the first batch, then rescale",
                              left));
    }
  }
  field(node, "shortened_by") = std::int64_t{0};
  return node;
}

}  // namespace

std::vector<State> rescale_adapters(const SavableJobState& job, const JobLayout& layout, int rank,
                                    std::int64_t epoch) {
  std::vector<State> adapters;
  for (std::size_t i = 0; i < job.ranks.front().adapters.size(); ++i) {
    const std::string& type = job.ranks.front().adapters[i].type;
    if (type == "Shard") {
      adapters.push_back(rescale_shard(job, i, layout, rank, epoch));
    } else if (type == "Dispatch") {
      adapters.push_back(rescale_dispatch(job, i, layout, epoch));
    } else if (type == "SkipFirst") {
      adapters.push_back(rescale_skip(job, i));
    } else {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the position of the adapter {} cannot be put on another layout",
                              printable(type)));
    }
  }
  return adapters;
}

}  // namespace energon
