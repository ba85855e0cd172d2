// Rank 0 reads, all ranks get their part. Run one per rank:
//   dispatch DATASET STORE_FILE RANK RANKS

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "energon/loader/savable_data_loader.h"
#include "energon/read/webdataset.h"
#include "energon/torch/c10d_comm.h"
#include "io/error.h"
#include "protocols/accelerate/dispatch_adapter.h"
#include "wrappers/recipe/pipeline.h"

using namespace energon;

static c10::intrusive_ptr<c10d::ProcessGroupGloo> join_group(const char* store, int rank,
                                                             int ranks) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::FileStore>(store, ranks), rank, ranks, std::move(options));
}

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: dispatch DATASET STORE_FILE RANK RANKS\n");
    return 2;
  }
  try {
    const int rank = std::atoi(argv[3]);
    std::shared_ptr<SavableDataLoader> source;
    if (rank == 0) {  // before the group, which has threads, because a loader forks
      const auto dataset = std::make_shared<const Webdataset>(open_split(argv[1]));
      source = std::make_shared<SavableDataLoader>(
          train_pipeline(dataset, {.batch_size = 4, .repeat = false}),
          LoaderOptions{.worker_config = {.num_workers = 2}});
    }
    const auto comm = c10d_comm(join_group(argv[2], rank, std::atoi(argv[4])),
                                {.timeout = std::chrono::seconds(30)});
    DispatchAdapter adapter(source, *comm);
    std::size_t steps = 0;
    std::size_t samples = 0;
    while (const auto batch = adapter.next()) {
      ++steps;
      samples += batch->keys.size();
    }
    std::printf("rank %d: %zu steps, %zu samples\n", rank, steps, samples);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dispatch: %s\n", error.what());
    return 1;
  }
}
