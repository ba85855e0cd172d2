#include "tests/protocols/accelerate/adapter_fixture.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/accelerate/skip_first.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {

SingleProcessComm& alone() {
  static SingleProcessComm comm;
  return comm;
}

std::shared_ptr<Adapter> adapt(AdapterKind kind, std::shared_ptr<BatchSource> source) {
  switch (kind) {
    case AdapterKind::kShard:
      return std::make_shared<ShardAdapter>(std::move(source));
    case AdapterKind::kDispatch:
      return std::make_shared<DispatchAdapter>(std::move(source), alone());
    case AdapterKind::kSkip:
      return skip_first_batches(adapt(AdapterKind::kShard, std::move(source)), 0);
  }
  return nullptr;
}

std::shared_ptr<RegisteredLoader> adapt(AdapterKind kind, std::shared_ptr<BatchSource> source,
                                        LoaderRegistry& registry) {
  return std::make_shared<RegisteredLoader>(adapt(kind, std::move(source)), registry);
}

Texts keys(BatchSource& source, std::size_t limit) {
  Texts batches;
  while (batches.size() < limit) {
    const std::optional<Sample> batch = source.next();
    if (!batch) {
      break;
    }
    batches.push_back(fmt::format("{}", fmt::join(batch->keys, ",")));
  }
  return batches;
}

Texts from(const Texts& all, std::size_t begin) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.end()};
}

Texts split(const std::string& text, char separator) {
  Texts parts;
  std::string part;
  for (const char c : text) {
    c == separator ? parts.push_back(std::exchange(part, {})) : part.push_back(c);
  }
  parts.push_back(part);
  return parts;
}

std::shared_ptr<SavableDataLoader> RealLoaders::loader(int workers, int rank, int ranks,
                                                       std::int64_t seed_offset,
                                                       std::int64_t checkpoint_every) const {
  const auto pipeline =
      train_pipeline(dataset_, {.batch_size = 4, .shuffle_buffer_size = 10, .repeat = false});
  return std::make_shared<SavableDataLoader>(
      pipeline, LoaderOptions{.worker_config = {.rank = rank,
                                                .world_size = ranks,
                                                .num_workers = workers,
                                                .seed_offset = seed_offset},
                              .checkpoint_every_batches = checkpoint_every});
}

std::shared_ptr<SavableDataLoader> RealLoaders::sparse_loader(int workers) const {
  return loader(workers, 0, 1, 0, 1'000'000'000);
}

std::shared_ptr<SavableDataLoader> UnevenLoaders::loader(int rank, int ranks,
                                                         std::int64_t batch_size,
                                                         int workers) const {
  WorkerConfig layout = {.rank = rank, .world_size = ranks, .num_workers = workers};
  layout.logical_shards = 12;
  layout.division = Division::kEnergon;  // neighbors, so that the ranks differ as much as possible
  return std::make_shared<SavableDataLoader>(
      train_pipeline(dataset_,
                     {.batch_size = batch_size, .shuffle_buffer_size = 7, .repeat = false}),
      LoaderOptions{.worker_config = layout});
}

std::shared_ptr<ShardAdapter> UnevenLoaders::ending(Comm& comm, CommonEnd end) const {
  return std::make_shared<ShardAdapter>(loader(comm.rank(), comm.size()),
                                        ShardOptions{.even_batches = end == CommonEnd::kRepeat,
                                                     .drop_last = end == CommonEnd::kDrop,
                                                     .comm = &comm});
}

std::shared_ptr<DispatchAdapter> UnevenLoaders::dispatching(Comm& comm, int workers) const {
  return std::make_shared<DispatchAdapter>(comm.rank() == 0 ? loader(0, 1, 2, workers) : nullptr,
                                           comm);
}

}  // namespace energon::testing
