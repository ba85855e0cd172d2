// Saves in the middle, continues, and compares with a restored loader:
//
//   resume DATASET STATE_FILE

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "energon/energon.h"

using namespace energon;

static SavableDataLoader make_loader(const std::string& path) {
  const auto dataset = std::make_shared<const Webdataset>(open_split(path));
  return SavableDataLoader(train_pipeline(dataset, {.batch_size = 4, .shuffle_buffer_size = 50}),
                           {.worker_config = {.num_workers = 2}});
}

static std::vector<std::uint64_t> take(SavableDataLoader& loader, int count) {
  std::vector<std::uint64_t> digests;
  while (count-- > 0) {
    digests.push_back(digest(*loader.next()));  // this stream never ends
  }
  return digests;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: resume DATASET STATE_FILE\n");
    return 2;
  }
  try {
    SavableDataLoader loader = make_loader(argv[1]);
    take(loader, 11);
    write_loader_state(argv[2], loader.save_state_rank());
    const auto expected = take(loader, 20);

    SavableDataLoader restored = make_loader(argv[1]);  // in a training job: a new process
    restored.restore_state_rank(read_loader_state(argv[2]));
    const bool is_same = take(restored, 20) == expected;
    std::printf("20 batches after the restore: %s\n", is_same ? "identical" : "DIFFERENT");
    return is_same ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "resume: %s\n", error.what());
    return 1;
  }
}
