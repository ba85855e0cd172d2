#include "energon/checkpoint/state_config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/buffer_allocator.h"
#include "energon/state/state_json.h"
#include "io/error.h"

namespace energon {
namespace {

// The version of Energon with the same draws. States without this member come from older versions
// of this library, which drew like 7.4.0.
constexpr const char* kDraws = "7.4.1";

// The configuration of the outermost Batch stage, or null. For Config and const Config.
template <class AnyConfig>
AnyConfig* find_batch(AnyConfig& config) {
  AnyConfig* node = &config;
  while (node->is_object()) {
    if (const auto type = node->find("type"); type != node->end() && *type == "Batch") {
      return node;
    }
    const auto inner = node->find(node->contains("pipeline") ? "pipeline" : "inner");
    if (inner == node->end()) {
      break;
    }
    node = &*inner;
  }
  return nullptr;
}

// The type of the outermost stage around the batches that counts them or does not map each to one
// item, or "" if there is none.
std::string stage_around_batches(const Config& config) {
  for (const Config* node = &config.at("pipeline"); node->is_object() && node->contains("inner");
       node = &node->at("inner")) {
    std::string type = node->value("type", "");
    if (type == "Batch") {
      break;
    }
    if (type != "Map") {
      return type;
    }
  }
  return "";
}

// The member `name`, which must be in [least, most]; `absent` if it is missing.
int integer_in(const JsonReader& config, std::string_view name, int least, int most, int absent) {
  const std::optional<JsonReader> member = config.find(name);
  if (!member) {
    return absent;
  }
  const std::int64_t value = member->integer();
  if (value < least || value > most) {
    member->fail(fmt::format("expected a value in [{}, {}]", least, most));
  }
  return static_cast<int>(value);
}

void check_types(const JsonReader& node) {
  if (node.json().is_object()) {
    if (const auto type = node.find("type")) {
      type->text();
    }
  }
  const bool list = node.json().is_array();
  for (const auto& [name, value] : node.json().items()) {
    if (value.is_structured()) {
      check_types({value, list ? fmt::format("{}[{}]", node.path(), name)
                               : fmt::format("{}.{}", node.path(), printable(name))});
    }
  }
}

}  // namespace

std::optional<std::int64_t> micro_batch_size(const Config& config) {
  const Config* batch = find_batch(config);
  if (batch == nullptr || !batch->contains("batch_size") ||
      !batch->at("batch_size").is_number_integer()) {
    return std::nullopt;
  }
  return batch->at("batch_size").get<std::int64_t>();
}

void set_micro_batch_size(Config& config, std::int64_t size) {
  if (Config* const batch = find_batch(config); batch != nullptr) {
    (*batch)["batch_size"] = size;
  }
}

Config layout_config(const WorkerConfig& layout) {
  Config config = {{"rank", layout.rank}, {"world_size", layout.world_size}};
  if (layout.logical_shards) {
    config["logical_shards"] = *layout.logical_shards;
    config["division"] = layout.division == Division::kEven ? "even" : "energon";
  } else {
    config["num_workers"] = layout.num_workers;
  }
  config["seed_offset"] = layout.seed_offset;
  return config;
}

Config state_config(const PipelineFactory& make_pipeline, const WorkerConfig& worker_config) {
  HeapBufferPool memory;
  WorkerConfig first = worker_config;
  first.rank = 0;
  Config config = layout_config(worker_config);
  config["draws"] = kDraws;
  config["pipeline"] =
      make_pipeline({.config = first, .local_index = 0, .memory = memory})->config();
  return config;
}

Config common_config(Config state_config) {
  state_config.erase("rank");
  return state_config;
}

std::string dump_config(const Config& config) {
  try {
    return config.dump();
  } catch (const Config::exception& error) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the configuration of this loader has a string that is not UTF-8, which "
                    "a saved state cannot contain: {}",
                    printable(error.what())));
  }
}

WorkerConfig layout_of(const Config& config, const std::string& path) {
  const JsonReader reader(config, path);
  WorkerConfig layout;
  layout.world_size = integer_in(reader, "world_size", 1, kMaxLogicalShards, 1);
  layout.rank = integer_in(reader, "rank", 0, layout.world_size - 1, 0);
  layout.num_workers = integer_in(reader, "num_workers", 0, kMaxWorkers, 0);
  const std::int64_t workers = std::int64_t{layout.world_size} * layout.workers_per_rank();
  if (workers > kMaxLogicalShards) {
    reader.fail(fmt::format("{} workers exceed the limit of {}", workers, kMaxLogicalShards));
  }
  if (const auto seed_offset = reader.find("seed_offset")) {
    layout.seed_offset = seed_offset->integer();
  }
  if (config.contains("logical_shards")) {
    layout.logical_shards =
        integer_in(reader, "logical_shards", static_cast<int>(workers), kMaxLogicalShards, 0);
    if (const auto division = reader.find("division")) {
      if (division->text() != "even" && division->text() != "energon") {
        division->fail("expected even or energon");
      }
      layout.division = division->text() == "energon" ? Division::kEnergon : Division::kEven;
    }
  }
  layout.allow_uneven = true;
  return layout;
}

void check_config(const Config& config, const std::string& path) {
  check_depth(config, path);
  layout_of(config, path);
  const JsonReader reader(config, path);
  if (const auto pipeline = reader.find("pipeline"); pipeline && !pipeline->json().is_object()) {
    pipeline->fail("expected an object");
  }
  check_types(reader);
}

void check_micro_batch(std::optional<std::int64_t> saved, std::optional<std::int64_t> current,
                       const Config& config, std::vector<std::string>& differences) {
  if (saved == current) {
    return;
  }
  if (!saved || !current) {
    differences.push_back(
        fmt::format("micro batch size: the state belongs to a loader {} batches, this one is {}",
                    saved ? "with" : "without", current ? "with" : "without"));
    return;
  }
  const WorkerConfig layout = layout_of(config);
  if (!layout.logical_shards) {
    if (layout.num_workers == 0) {
      differences.push_back(fmt::format(
          "micro batch size: {}, expected {}; without workers, it must be equal, or set "
          "logical_shards",
          *saved, *current));
    } else if (*current > *saved || *saved % *current != 0) {
      differences.push_back(
          fmt::format("micro batch size: {}, expected {}; it may only become smaller, by a divisor "
                      "of the saved one, unless logical_shards is set",
                      *saved, *current));
    }
  }
  if (const std::string stage = stage_around_batches(config); !stage.empty()) {
    differences.push_back(fmt::format(
        "micro batch size: {}, expected {}; it cannot change with {} around the "
        "batches{}",
        *saved, *current, stage,
        stage == "Epochize" || stage == "Limit" ? " (virtual_epoch_length and limit count batches)"
                                                : ""));
  }
}

}  // namespace energon
