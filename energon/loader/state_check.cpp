#include "energon/loader/state_check.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/buffer_allocator.h"
#include "io/error.h"

namespace energon {
namespace {

// The configuration of the outermost Batch stage, or nothing. For Config and const Config.
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

// Whether a stage around the batches counts them: virtual epochs, limits.
bool counts_batches(const Config& config) {
  for (const Config* node = &config.at("pipeline"); node->is_object() && node->contains("inner");
       node = &node->at("inner")) {
    const std::string type = node->value("type", "");
    if (type == "Epochize" || type == "Limit") {
      return true;
    }
    if (type == "Batch") {
      break;
    }
  }
  return false;
}

// Where `pipeline` stands after the batches of `worker`, each `ratio` times as large as its own.
// The last one of an epoch may have been smaller; what was left out at its end stays left out.
SavableDatasetCheckpoint rebatch(const SavableDatasetCheckpoint& worker, std::int64_t ratio,
                                 std::int64_t epoch, Dataset& pipeline) {
  SavableDatasetCheckpoint fitted{std::nullopt, worker.index * ratio, worker.epoch, 0};
  for (std::int64_t left = worker.offset; left > 0;) {
    const std::int64_t skipped = pipeline.skip(ratio);
    fitted.index += skipped;
    if (skipped > 0) {
      --left;
    } else if (fitted.epoch < epoch) {
      pipeline.next_epoch();
      ++fitted.epoch;
    } else {
      throw Error(
          ErrorCode::kMismatch,
          fmt::format("the state says that {} batches more were delivered than the data has",
                      left));
    }
  }
  for (; fitted.epoch < epoch; ++fitted.epoch) {
    while (pipeline.skip(1) > 0) {
    }
    pipeline.next_epoch();
  }
  fitted.state = pipeline.save_state();
  return fitted;
}

[[noreturn]] void refuse(const std::vector<std::string>& differences) {
  throw Error(ErrorCode::kMismatch,
              fmt::format("the state was saved by another loader; nothing was restored:\n  {}",
                          fmt::join(differences, "\n  ")));
}

// How many new batches stand for one old one; 0 after adding a difference.
std::int64_t batch_ratio(std::optional<std::int64_t> saved, std::optional<std::int64_t> current,
                         bool has_workers, std::vector<std::string>& differences) {
  if (saved == current) {
    return 1;
  }
  if (!saved || !current) {
    differences.push_back(
        fmt::format("micro batch size: the state is of a loader {} batches, this one is {}",
                    saved ? "with" : "without", current ? "with" : "without"));
  } else if (!has_workers) {
    differences.push_back(fmt::format(
        "micro batch size: {}, expected {}; without workers it must be equal", *saved, *current));
  } else if (*current > *saved || *saved % *current != 0) {
    differences.push_back(
        fmt::format("micro batch size: {}, expected {}; it may only become smaller, by a divisor "
                    "of the saved one",
                    *saved, *current));
  } else {
    return *saved / *current;
  }
  return 0;
}

}  // namespace

Config state_config(const PipelineFactory& make_pipeline, const WorkerConfig& worker_config) {
  HeapBufferPool memory;
  return {{"rank", worker_config.rank},
          {"world_size", worker_config.world_size},
          {"num_workers", worker_config.num_workers},
          {"seed_offset", worker_config.seed_offset},
          {"pipeline",
           make_pipeline({.config = worker_config, .worker = 0, .memory = memory})->config()}};
}

std::optional<std::int64_t> micro_batch_size(const Config& config) {
  const Config* batch = find_batch(config);
  if (batch == nullptr || !batch->contains("batch_size") ||
      !batch->at("batch_size").is_number_integer()) {
    return std::nullopt;
  }
  return batch->at("batch_size").get<std::int64_t>();
}

SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config) {
  std::vector<std::string> differences;
  const std::optional<std::int64_t> current = micro_batch_size(expected);
  const std::int64_t ratio =
      batch_ratio(state.micro_batch_size, current, worker_config.num_workers > 0, differences);
  Config saved = state.config;
  if (Config* batch = find_batch(saved); batch != nullptr && current) {
    (*batch)["batch_size"] = *current;  // judged by batch_ratio()
  }
  compare_configs(saved, expected, "", differences);
  const auto pipelines = static_cast<std::size_t>(worker_config.pipelines_per_rank());
  if (state.worker_states.size() != pipelines) {
    differences.push_back(
        fmt::format("worker states: {}, expected {}", state.worker_states.size(), pipelines));
  }
  if (ratio > 1 && counts_batches(expected)) {
    differences.push_back(
        "micro batch size: it cannot change with virtual_epoch_length or limit, which count "
        "batches");
  }
  if (!differences.empty()) {
    refuse(differences);
  }
  SavableDataLoaderState fitted = state;
  fitted.config = expected;
  fitted.micro_batch_size = current;
  fitted.batch_index *= ratio;
  HeapBufferPool memory;
  for (std::size_t i = 0; i < pipelines; ++i) {
    SavableDatasetCheckpoint& worker = fitted.worker_states[i];
    try {
      const auto pipeline =
          make_pipeline({.config = worker_config, .worker = static_cast<int>(i), .memory = memory});
      if (worker.state) {
        pipeline->restore_state(*worker.state);
      }
      if (ratio > 1) {
        worker = rebatch(worker, ratio, fitted.epoch, *pipeline);
      }
    } catch (Error& error) {
      error.with({.worker = static_cast<int>(i)});
      throw;
    }
  }
  return fitted;
}

}  // namespace energon
