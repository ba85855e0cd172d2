#include "wrappers/batching/batch_generator.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/stages/iter_map.h"

namespace energon {
namespace {

/// The samples of one group and the generator over them.
struct Group {
  std::vector<Sample> samples;
  FieldsGenerator next;
};

std::vector<Sample> pull_group(const Pull& pull, std::int64_t batch_size) {
  std::vector<Sample> samples;
  while (static_cast<std::int64_t>(samples.size()) < batch_size) {
    std::optional<Sample> sample = pull();
    if (!sample) {
      break;
    }
    samples.push_back(std::move(*sample));
  }
  return samples;
}

SampleGenerator batches_of(std::vector<Sample> samples, const BatchGenerator& function,
                           CallContext& context) {
  for (const Sample& sample : samples) {
    check_made(sample);
  }
  const auto group = std::make_shared<Group>();
  group->samples = std::move(samples);
  group->next = function(group->samples, context);
  return [group]() -> std::optional<Sample> {
    std::optional<Mapping> fields = group->next ? group->next() : std::nullopt;
    if (!fields) {
      return std::nullopt;
    }
    Sample batch;
    batch.fields = std::move(*fields);
    return batch;
  };
}

}  // namespace

std::unique_ptr<Dataset> generated_batches(std::unique_ptr<Dataset> inner,
                                           GeneratedBatchOptions options) {
  if (!options.function) {
    throw Error(ErrorCode::kInvalidArgument, "a batch needs a batch function");
  }
  if (options.batch_size < 1 || options.batch_size > kMaxBatchSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch size is {}, it must be from 1 to {}", options.batch_size,
                            kMaxBatchSize));
  }
  const std::int64_t batch_size = options.batch_size;
  const bool drops = options.remainder == BatchOptions::Remainder::kDrop;
  const auto make_batches = [function = std::move(options.function), batch_size, drops](
                                const Pull& pull, CallContext& context) -> SampleGenerator {
    std::vector<Sample> samples = pull_group(pull, batch_size);
    const bool is_full = static_cast<std::int64_t>(samples.size()) == batch_size;
    if (samples.empty() || (drops && !is_full)) {
      return nullptr;
    }
    return batches_of(std::move(samples), function, context);
  };
  return std::make_unique<IterMap>(
      std::move(inner),
      IterMapOptions{.function = make_batches,
                     .max_samples_per_call = batch_size,
                     .settings = Config{{"batch_size", batch_size},
                                        {"remainder", drops ? "drop" : "smaller batch"}}
                                     .dump(),
                     .stage = std::move(options.stage)});
}

}  // namespace energon
