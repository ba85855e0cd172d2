// The state of a whole job in one file: global_state DATASET STATE_FILE
//
// Three ranks take six steps; rank 0 collects their states and writes them. A new job of three
// ranks receives them from rank 0 and delivers the same batches as the first job; a job of two
// ranks continues from the rescaled state.

#include "energon/distributed/global_state.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/energon.h"
#include "examples/forked_ranks.h"

using namespace energon;

namespace {

class Job {
 public:
  explicit Job(const char* path)
      : pipeline_(train_pipeline(std::make_shared<const Webdataset>(open_split(path)),
                                 {.batch_size = 2, .shuffle_buffer_size = 20})) {}

  std::unique_ptr<SavableDataLoader> loader(const Comm& comm) const {
    return std::make_unique<SavableDataLoader>(
        pipeline_, LoaderOptions{.worker_config = {.rank = comm.rank(),
                                                   .world_size = comm.size(),
                                                   .num_workers = 1,
                                                   .logical_shards = 6}});
  }

 private:
  PipelineFactory pipeline_;
};

std::vector<std::uint64_t> take(SavableDataLoader& loader, int count) {
  std::vector<std::uint64_t> digests;
  while (count-- > 0) {
    digests.push_back(digest(*loader.next()));  // this stream never ends
  }
  return digests;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: global_state DATASET STATE_FILE\n");
    return 2;
  }
  const std::string file = argv[2];
  const Job job(argv[1]);
  const bool same_layout = examples::run_ranks(3, [&](Comm& comm) {
    const auto loader = job.loader(comm);
    take(*loader, 6);
    if (const auto state = save_state_global(*loader, comm, 0)) {
      write_job_state(file, *state);
    }
    const auto expected = take(*loader, 10);

    const auto restored = job.loader(comm);  // in a training job: a new process
    std::optional<SavableJobState> state;
    if (comm.rank() == 0) {
      state = std::get<SavableJobState>(read_saved_state(file));
    }
    restore_state_global(*restored, comm, state, 0);
    const bool is_same = take(*restored, 10) == expected;
    std::printf("rank %d of 3: 10 batches after the restore: %s\n", comm.rank(),
                is_same ? "identical" : "DIFFERENT");
    return is_same;
  });
  const bool other_layout = examples::run_ranks(2, [&](Comm& comm) {
    const auto loader = job.loader(comm);
    std::optional<SavableJobState> state;
    if (comm.rank() == 0) {
      state = rescale(std::get<SavableJobState>(read_saved_state(file)),
                      {.world_size = comm.size(), .num_workers = 1});
    }
    restore_state_global(*loader, comm, state, 0);
    take(*loader, 1);
    std::printf("rank %d of 2: continues at step %lld\n", comm.rank(),
                static_cast<long long>(*loader->save_state_rank().step_in_epoch));
    return true;
  });
  return same_layout && other_layout ? 0 : 1;
}
