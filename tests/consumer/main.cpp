// Loads one epoch of the tars in argv[1] with two workers and prints the number of samples.

#include <cstdio>

#include "energon/energon.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  const auto dataset = std::make_shared<const energon::Webdataset>(energon::open_split(argv[1]));
  energon::SavableDataLoader loader(
      energon::train_pipeline(dataset, {.batch_size = 4, .repeat = false}),
      {.worker_config = {.num_workers = 2}});
  std::size_t samples = 0;
  while (const auto batch = loader.next()) {
    samples += batch->keys.size();
  }
  std::printf("%zu samples\n", samples);
}
