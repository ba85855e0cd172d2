#include "wrappers/pipeline.h"

#include <utility>

#include "energon/sharder.h"
#include "wrappers/concat.h"
#include "wrappers/epochize.h"
#include "wrappers/limit.h"
#include "wrappers/read_samples.h"
#include "wrappers/repeat.h"
#include "wrappers/shuffle_buffer.h"

namespace energon {
namespace {

std::unique_ptr<Order> slice_order(const Webdataset& dataset, const PipelineContext& context,
                                   std::int64_t rotation_offset,
                                   std::optional<std::int64_t> max_samples_per_sequence,
                                   SliceOrderOptions options) {
  const SharderInput input{.shard_counts = dataset.shard_counts(),
                           .logical_shard_count = context.config.logical_shard_count(),
                           .rotation_offset = rotation_offset,
                           .max_samples_per_sequence = max_samples_per_sequence};
  options.seed = context.seed();
  return std::make_unique<SliceOrder>(slice_bounds(input, context.logical_shard()),
                                      dataset.excluded(), options);
}

StageOptions stage_options(const std::string& name, const ErrorPolicies& errors,
                           const PipelineContext& context) {
  return {.name = name,
          .seed = worker_seed(0, context.config.seed_offset),
          .policy = errors.of(name),
          .monitor = context.monitor};
}

std::unique_ptr<Dataset> map_all(std::unique_ptr<Dataset> dataset,
                                 const std::vector<NamedMap>& maps, const ErrorPolicies& errors,
                                 const PipelineContext& context) {
  for (const NamedMap& map : maps) {
    dataset = std::make_unique<Map>(std::move(dataset), map.function,
                                    stage_options(map.name, errors, context));
  }
  return dataset;
}

// What follows reading: the same for training and validation.
template <class Options>
std::unique_ptr<Dataset> map_and_batch(std::unique_ptr<Dataset> samples, const Options& options,
                                       const PipelineContext& context) {
  auto dataset = map_all(std::move(samples), options.sample_maps, options.errors, context);
  if (options.batch_size) {
    dataset = std::make_unique<Batch>(
        std::move(dataset), BatchOptions{.batch_size = *options.batch_size,
                                         .remainder = options.remainder,
                                         .function = options.batch_function,
                                         .stage = stage_options("batch", options.errors, context)});
  }
  return map_all(std::move(dataset), options.batch_maps, options.errors, context);
}

}  // namespace

PipelineFactory train_pipeline(std::shared_ptr<const Webdataset> dataset, TrainOptions options) {
  return [dataset = std::move(dataset), options = std::move(options)](
             const PipelineContext& context) -> std::unique_ptr<Dataset> {
    std::unique_ptr<Order> order =
        slice_order(*dataset, context, 0, options.max_samples_per_sequence,
                    {.shuffle_over_epochs = options.shuffle_over_epochs,
                     .parallel_slices = options.parallel_slices});
    if (options.repeat) {
      order = std::make_unique<Repeat>(std::move(order), std::nullopt);
    }
    if (options.shuffle_buffer_size > 1) {
      order = std::make_unique<ShuffleBuffer>(std::move(order), options.shuffle_buffer_size,
                                              context.seed());
    }
    auto stream = map_and_batch(
        std::make_unique<ReadSamples>(
            std::move(order), std::vector<std::shared_ptr<const LeafDataset>>{dataset},
            context.memory, stage_options("read", options.errors, context)),
        options, context);
    if (options.virtual_epoch_length > 0) {
      stream = std::make_unique<Epochize>(std::move(stream),
                                          share_of(options.virtual_epoch_length, context.worker,
                                                   context.config.pipelines_per_rank()));
    }
    return stream;
  };
}

PipelineFactory val_pipeline(std::vector<std::shared_ptr<const Webdataset>> datasets,
                             ValOptions options) {
  return [datasets = std::move(datasets), options = std::move(options)](
             const PipelineContext& context) -> std::unique_ptr<Dataset> {
    std::vector<std::unique_ptr<Order>> orders;
    std::int64_t samples_before = 0;
    for (const auto& dataset : datasets) {
      // Datasets after each other give their remainders to different logical shards, as in Energon.
      orders.push_back(slice_order(
          *dataset, context, samples_before % context.config.logical_shard_count(), std::nullopt,
          {.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kNone},
           .parallel_slices = 1,
           .leaf = static_cast<std::uint32_t>(orders.size())}));
      samples_before += dataset->sample_count();
    }
    std::unique_ptr<Order> order = orders.size() == 1 ? std::move(orders.front())
                                                      : std::make_unique<Concat>(std::move(orders));
    auto stream = map_and_batch(
        std::make_unique<ReadSamples>(
            std::move(order),
            std::vector<std::shared_ptr<const LeafDataset>>(datasets.begin(), datasets.end()),
            context.memory, stage_options("read", options.errors, context)),
        options, context);
    if (options.limit) {
      stream = std::make_unique<Limit>(
          std::move(stream),
          share_of(*options.limit, context.worker, context.config.pipelines_per_rank()));
    }
    return stream;
  };
}

}  // namespace energon
