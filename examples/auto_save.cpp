// Checkpoints without code in the training loop: auto_save DATASET FOLDER RANKS STEPS
//
// Each run takes STEPS steps and ends without saving, like a killed job. The next run continues
// from the newest checkpoint in FOLDER, on any number of ranks that divides 12.

#include <cstdio>
#include <cstdlib>

#include "energon/autosave/auto_saver.h"
#include "energon/energon.h"
#include "examples/forked_ranks.h"

using namespace energon;

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: auto_save DATASET FOLDER RANKS STEPS\n");
    return 2;
  }
  const int steps = std::atoi(argv[4]);
  const bool all_well = examples::run_ranks(std::atoi(argv[3]), [&](Comm& comm) {
    const auto dataset = std::make_shared<const Webdataset>(open_split(argv[1]));
    AutoSavingLoader loader(
        train_pipeline(dataset, {.batch_size = 2, .shuffle_buffer_size = 20}),
        {.worker_config = {.rank = comm.rank(), .world_size = comm.size(), .logical_shards = 12}},
        {.folder = argv[2], .every_batches = 4, .keep = 2, .comm = &comm});
    const std::int64_t first = loader.saver().step();
    for (int step = 0; step < steps; ++step) {
      loader.next();  // forward, backward, all-reduce
    }
    std::printf("rank %d: steps %lld to %lld\n", comm.rank(), static_cast<long long>(first),
                static_cast<long long>(loader.saver().step()));
    return true;
  });
  return all_well ? 0 : 1;
}
