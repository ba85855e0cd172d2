#include "tests/protocols/torchdata/stateful_fixture.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/savable_data_loader.h"
#include "tests/protocols/torchdata/growing_dataset.h"
#include "tests/support/memory_leaf.h"
#include "wrappers/batching/batch.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {

std::string keys_of(const Sample& batch) { return fmt::format("{}", fmt::join(batch.keys, ",")); }

Batches take(StatefulDataLoader& loader, std::size_t limit) {
  Batches batches;
  while (batches.size() < limit) {
    const std::optional<Sample> batch = loader.next();
    if (!batch) {
      break;
    }
    batches.push_back(keys_of(*batch));
  }
  return batches;
}

Batches pass(StatefulDataLoader& loader) {
  loader.iterate();
  return take(loader);
}

Batches after(const Batches& batches, std::size_t count) {
  return {batches.begin() + static_cast<std::ptrdiff_t>(count), batches.end()};
}

const Dict& checkpoints(const Dict& dict) {
  return dict.at("source").at("loader").at("checkpoints");
}

Dict through_text(const Dict& dict) { return Dict::parse(dict.dump()); }

PipelineFactory uneven_workers(std::optional<std::int64_t> batch_size) {
  return [batch_size](const PipelineContext& context) -> std::unique_ptr<Dataset> {
    const std::vector<std::int64_t> sizes =
        context.config.num_workers == 0   ? std::vector<std::int64_t>{137}
        : context.config.num_workers == 3 ? std::vector<std::int64_t>{0, 100, 37}
                                          : std::vector<std::int64_t>{20, 20};
    auto samples = std::make_unique<GrowingDataset>(
        std::to_string(context.logical_shard()),
        sizes.at(static_cast<std::size_t>(context.logical_shard())));
    if (!batch_size) {
      return samples;
    }
    return std::make_unique<Batch>(std::move(samples), BatchOptions{.batch_size = *batch_size});
  };
}

PipelineFactory shuffled_batches() {
  return train_pipeline(
      std::make_shared<const MemoryLeaf>("", std::vector<std::int64_t>{30, 20, 50}),
      {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false});
}

std::unique_ptr<StatefulDataLoader> make(PipelineFactory pipeline, int workers,
                                         const StatefulOptions& options) {
  return std::make_unique<StatefulDataLoader>(
      std::move(pipeline), LoaderOptions{.worker_config = {.num_workers = workers}}, options);
}

void resume(StatefulDataLoader& loader, const Dict& dict) {
  loader.load_state_dict(dict);
  loader.iterate();
}

std::pair<ErrorCode, std::string> failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  throw std::runtime_error("it did not fail");
}

std::shared_ptr<IndexedSource> indexed(std::optional<std::uint32_t> shuffle_seed) {
  return std::make_shared<IndexedSource>(
      IndexedOptions{.samples = 100, .batch_size = 7, .shuffle_seed = shuffle_seed},
      [](std::span<const std::int64_t> indexes) {
        Sample batch;
        for (const std::int64_t index : indexes) {
          batch.keys.push_back(std::to_string(index));
        }
        return batch;
      });
}

std::vector<int> worker_pids(StatefulDataLoader& loader) {
  return dynamic_cast<SavableDataLoader&>(loader.source()).worker_pids();
}

SharedCounters::SharedCounters() {
  constexpr std::size_t kBytes = kCount * sizeof(std::atomic<std::int64_t>);
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  // The pages are zeroed, so the counters are 0.
  counters_ = {static_cast<std::atomic<std::int64_t>*>(memory),
               [](std::atomic<std::int64_t>* counters) { ::munmap(counters, kBytes); }};
}

}  // namespace energon::testing
