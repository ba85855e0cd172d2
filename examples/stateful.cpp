// Saves the state of a stateful loader in the middle of an epoch as JSON, loads the state into
// another loader, and compares the batches that follow:    stateful DATASET

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/read/webdataset.h"
#include "io/error.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "wrappers/recipe/pipeline.h"

using namespace energon;

static StatefulDataLoader make_loader(const std::string& path) {
  const auto dataset = std::make_shared<const Webdataset>(open_split(path));
  return StatefulDataLoader(
      train_pipeline(dataset, {.batch_size = 4, .shuffle_buffer_size = 20, .repeat = false}),
      {.worker_config = {.num_workers = 2}}, {.snapshot_every_n_steps = 5});
}

static std::vector<std::uint64_t> rest_of_pass(StatefulDataLoader& loader) {
  std::vector<std::uint64_t> digests;
  while (const auto batch = loader.next()) {
    digests.push_back(digest(*batch));
  }
  return digests;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: stateful DATASET\n");
    return 2;
  }
  try {
    StatefulDataLoader loader = make_loader(argv[1]);
    loader.iterate();
    for (int step = 0; step < 7; ++step) {
      loader.next();
    }
    const std::string json = loader.state_dict().dump();
    const auto expected = rest_of_pass(loader);

    StatefulDataLoader resumed = make_loader(argv[1]);  // in a training job: a new process
    resumed.load_state_dict(nlohmann::ordered_json::parse(json));
    resumed.iterate();
    const auto rest = rest_of_pass(resumed);
    std::printf("a state of %zu bytes; the %zu batches after it: %s\n", json.size(), rest.size(),
                rest == expected ? "identical" : "DIFFERENT");
    return rest == expected ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "stateful: %s\n", error.what());
    return 1;
  }
}
