// An evaluation on several ranks that all make the same number of steps: end_together DATASET RANKS
//
// Each rank reads its share. Shares differ in size; the ranks with fewer batches repeat their first
// ones, so that none waits for another in a collective. The remainder says how many samples of the
// last step are not repeats.

#include <cstdio>
#include <cstdlib>

#include "energon/energon.h"
#include "examples/forked_ranks.h"
#include "protocols/accelerate/shard_adapter.h"

using namespace energon;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: end_together DATASET RANKS\n");
    return 2;
  }
  const bool all_well = examples::run_ranks(std::atoi(argv[2]), [&](Comm& comm) {
    const auto dataset = std::make_shared<const Webdataset>(open_split(argv[1]));
    const auto loader = std::make_shared<SavableDataLoader>(
        val_pipeline(dataset, {.batch_size = 4}),
        LoaderOptions{.worker_config = {.rank = comm.rank(), .world_size = comm.size()}});
    const std::int64_t own = loader->size().value();
    ShardAdapter ranks_end_together(loader, {.even_batches = true, .comm = &comm});
    std::int64_t steps = 0;
    while (const auto batch = ranks_end_together.next()) {
      comm.barrier();  // forward, then a collective in which all ranks take part
      ++steps;
    }
    std::printf("rank %d: %lld steps, %lld batches of its own\n", comm.rank(),
                static_cast<long long>(steps), static_cast<long long>(own));
    return true;
  });
  return all_well ? 0 : 1;
}
