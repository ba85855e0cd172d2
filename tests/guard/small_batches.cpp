#include "tests/guard/small_batches.h"

#include <utility>

#include "io/error.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {
namespace {

constexpr std::int64_t kSamples = kTars * std::int64_t{100};

}  // namespace

std::shared_ptr<const Webdataset> small_samples(const std::string& folder, Parts parts) {
  bench::DataSetSpec spec{.name = {}, .samples = kSamples, .shards = kTars, .parts = {}};
  switch (parts) {
    case Parts::kOne:
      spec.name = "one";
      spec.parts = {{"txt", 300}};
      break;
    case Parts::kTwo:
      spec.name = "two";
      spec.parts = {{"txt", 600}, {"json", 200}};
      break;
    case Parts::kLarge:
      spec.name = "large";
      spec.parts = {{"bin", 8192}};
      break;
  }
  return bench::open_data_set(bench::make_data_set(folder, spec));
}

PipelineFactory batches_of(std::shared_ptr<const Webdataset> dataset, std::int64_t shuffle_buffer,
                           std::int64_t batch_size) {
  TrainOptions options;
  options.batch_size = batch_size;
  options.shuffle_buffer_size = shuffle_buffer;
  options.parallel_slices = kTars;
  return train_pipeline(std::move(dataset), std::move(options));
}

std::unique_ptr<SavableDataLoader> warm_loader(std::shared_ptr<const Webdataset> dataset,
                                               std::int64_t shuffle_buffer) {
  auto loader = std::make_unique<SavableDataLoader>(batches_of(std::move(dataset), shuffle_buffer),
                                                    LoaderOptions{});
  take_batches(*loader, static_cast<int>(kSamples / kBatchSamples));
  return loader;
}

void take_batches(SavableDataLoader& loader, int count) {
  for (int i = 0; i < count; ++i) {
    const auto batch = loader.next();
    if (!batch || batch->keys.size() != kBatchSamples) {
      throw Error(ErrorCode::kInternal, "a batch is incomplete");
    }
  }
}

}  // namespace energon::testing
