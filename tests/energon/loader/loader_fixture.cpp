#include "tests/energon/loader/loader_fixture.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <utility>

#include "io/hash.h"
#include "tests/energon/process/process_fixture.h"

namespace energon::testing {
namespace {

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

ProcessCounts ProcessCounts::now() {
  ProcessCounts counts;
  counts.descriptors = entries("/proc/self/fd");
  counts.threads = entries("/proc/self/task");
  std::ifstream children("/proc/self/task/" + std::to_string(::gettid()) + "/children");
  for (std::string child; children >> child;) {
    ++counts.children;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    const bool is_ours = name.find("energon") != std::string::npos;
    // Temporary folders of tests that run in parallel may be there.
    counts.shared_memory_names += is_ours && name.find("energon-test") == std::string::npos ? 1 : 0;
  }
  return counts;
}

ProcessCounts ProcessCounts::settled(const ProcessCounts& expected) {
  eventually([&] { return now() == expected; });
  return now();
}

std::ostream& operator<<(std::ostream& out, const ProcessCounts& counts) {
  return out << counts.descriptors << " descriptors, " << counts.threads << " threads, "
             << counts.children << " children, " << counts.shared_memory_names
             << " names in /dev/shm";
}

std::string label(const Sample& batch) {
  return batch.restore_key.text() + "=" + to_hex(digest(batch));
}

Labels take(SavableDataLoader& loader, std::size_t count) {
  Labels labels;
  for (std::size_t i = 0; i < count; ++i) {
    const auto batch = loader.next();
    labels.push_back(batch ? label(*batch) : kEpochEnd);
  }
  return labels;
}

Labels tail(const Labels& labels, std::size_t from, std::size_t count) {
  return {labels.begin() + static_cast<std::ptrdiff_t>(from),
          labels.begin() + static_cast<std::ptrdiff_t>(from + count)};
}

LoaderOptions never_checkpoint() { return {.checkpoint_every_batches = 1'000'000'000}; }

LoaderFixture::LoaderFixture(TrainOptions options, std::vector<std::int64_t> counts,
                             std::size_t payload_bytes)
    : dataset_(numbered_dataset(folder_, counts, payload_bytes)),
      pipeline_(train_pipeline(dataset_, std::move(options))) {}

std::unique_ptr<SavableDataLoader> LoaderFixture::loader(int num_workers,
                                                         LoaderOptions options) const {
  options.worker_config.num_workers = num_workers;
  return std::make_unique<SavableDataLoader>(pipeline_, options);
}

std::unique_ptr<SavableDataLoader> resumed(const LoaderFixture& fixture, int workers,
                                           const SavableDataLoaderState& state,
                                           const LoaderOptions& options) {
  auto loader = fixture.loader(workers, options);
  loader->restore_state_rank(state);
  return loader;
}

}  // namespace energon::testing
