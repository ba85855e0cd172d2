// Compares a job that changes its layout twice with one that does not: rescale DATASET
//
// 4 ranks with 2 workers each, then 2 with 3, then 8 with 1. After each part both jobs have the
// same certificate: they delivered the same samples in the same order.

#include "energon/energon.h"
#include "io/hash.h"

using namespace energon;

namespace {

constexpr int kLogicalShards = 24;

// All ranks of a job; in training, each rank is a process.
class Job {
 public:
  Job(const PipelineFactory& pipeline, int world_size, int num_workers) {
    for (int rank = 0; rank < world_size; ++rank) {
      ranks_.push_back(std::make_unique<SavableDataLoader>(
          pipeline, LoaderOptions{.worker_config = {.rank = rank,
                                                    .world_size = world_size,
                                                    .num_workers = num_workers,
                                                    .logical_shards = kLogicalShards}}));
    }
  }

  void restore(const SavableJobState& state) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank]->restore_state_rank(state_of_rank(state, static_cast<int>(rank)));
    }
  }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (const auto& rank : ranks_) {
        rank->next();  // forward, backward, all-reduce
      }
    }
  }

  SavableJobState save() {
    std::vector<SavableDataLoaderState> states;
    for (const auto& rank : ranks_) {
      states.push_back(rank->save_state_rank());
    }
    return merge_states(std::move(states));
  }

 private:
  std::vector<std::unique_ptr<SavableDataLoader>> ranks_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rescale DATASET\n");
    return 2;
  }
  try {
    const auto dataset = std::make_shared<const Webdataset>(open_split(argv[1]));
    const PipelineFactory pipeline =
        train_pipeline(dataset, {.batch_size = 2, .shuffle_buffer_size = 10});
    Job undisturbed(pipeline, 1, 0);
    std::optional<SavableJobState> state;
    bool all_equal = true;
    struct Layout {
      int world_size;
      int num_workers;
    };
    for (const auto [world_size, num_workers] : {Layout{4, 2}, Layout{2, 3}, Layout{8, 1}}) {
      Job job(pipeline, world_size, num_workers);
      if (state) {
        job.restore(rescale(*state, {.world_size = world_size, .num_workers = num_workers}));
      }
      constexpr int kSteps = 13;
      job.train(kSteps);
      undisturbed.train(kSteps * world_size);
      state = job.save();
      const Certificate certificate = certificate_of(*state);
      const bool is_equal = certificate == certificate_of(undisturbed.save());
      all_equal = all_equal && is_equal;
      std::printf("%d ranks x %d workers: %5lld samples so far, certificate %s, %s\n", world_size,
                  num_workers, static_cast<long long>(certificate.samples),
                  to_hex(certificate.digest).c_str(),
                  is_equal ? "equal to the undisturbed run" : "NOT that of the undisturbed run");
    }
    return all_equal ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rescale: %s\n", error.what());
    return 1;
  }
}
