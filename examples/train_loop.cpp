// A training loop over shuffled batches from two worker processes:    train_loop DATASET

#include <cstdio>
#include <memory>

#include "energon/energon.h"

using namespace energon;

// Stands in for the training step.
static std::size_t train_step(const Sample& batch) {
  std::size_t bytes = 0;
  for (const SharedBytes& image : batch.bytes_list("jpg")) {
    bytes += image.size();  // points into shared memory, not copied
  }
  return bytes;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_loop DATASET\n");
    return 2;
  }
  try {
    const auto dataset = std::make_shared<const Webdataset>(open_split(argv[1]));
    SavableDataLoader loader(
        train_pipeline(dataset,
                       {.batch_size = 8, .shuffle_buffer_size = 100, .virtual_epoch_length = 20}),
        {.worker_config = {.num_workers = 2}});
    for (int epoch = 0; epoch < 2; ++epoch) {
      int batches = 0;
      std::size_t bytes = 0;
      while (const auto batch = loader.next()) {
        bytes += train_step(*batch);
        ++batches;
      }
      std::printf("epoch %d: %d batches, %zu bytes of images\n", epoch, batches, bytes);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "train_loop: %s\n", error.what());
    return 1;
  }
  return 0;
}
