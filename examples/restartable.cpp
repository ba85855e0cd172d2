// A custom worker object with its own state: three workers, then five.
//
//   restartable
//
// Samples are addressed by index in one global order, so a run can resume with a different number
// of workers. The object adds its own data to the state. Prints the batches of both runs and of an
// uninterrupted run, and whether they are equal.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/cerebras/restartable_data_loader.h"
#include "protocols/cerebras/restartable_map.h"

using namespace energon;

// Squares in batches of four, and the number of batches made by all workers.
class Squares {
 public:
  explicit Squares(const WorkerIdentity& worker)
      : samples_(worker, {.samples = 100, .batch_size = 4, .shuffle_seed = 7}, make_batch) {}

  std::optional<Sample> next() {
    ++batches_;
    return samples_.next();
  }

  StateDict state_dict() const {
    return {{"samples", samples_.state_dict()}, {"batches", batches_}};
  }

  StateDict aggregate_state_dict(std::span<const StateDict> workers) const {
    std::vector<StateDict> samples;
    std::int64_t batches = before_;
    for (const StateDict& worker : workers) {
      samples.push_back(worker.at("samples"));
      batches += worker.at("batches").get<std::int64_t>();
    }
    return {{"samples", samples_.aggregate_state_dict(samples)}, {"batches", batches}};
  }

  StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) const {
    return {{"samples", samples_.deaggregate_state_dict(state.at("samples"), strictness)},
            {"before", state.at("batches")}};
  }

  void load_state_dict(const StateDict& part, Strictness strictness) {
    samples_.load_state_dict(part.at("samples"), strictness);
    before_ = part.at("before");
  }

 private:
  static Sample make_batch(std::span<const std::int64_t> numbers) {
    Sample batch;
    for (const std::int64_t number : numbers) {
      batch.keys.push_back(std::to_string(number * number));
    }
    return batch;
  }

  RestartableMap samples_;
  std::int64_t batches_ = 0;
  std::int64_t before_ = 0;  // batches of previous runs
};

static std::string batches(RestartableDataLoader& loader, int count) {
  std::string line;
  for (int i = 0; i < count; ++i) {
    const auto batch = loader.next();
    for (const std::string_view key : batch->keys) {
      line += key;
      line += " ";
    }
    line += "| ";
  }
  return line;
}

static RestartableDataLoader start(int num_workers) {
  return RestartableDataLoader(
      [](const PipelineContext& context) { return Squares(worker_identity(context)); },
      {.loader = {.worker_config = {.num_workers = num_workers}},
       .run = {.schedule = CheckpointSchedule::every(4)}});
}

int main() {
  try {
    RestartableDataLoader undisturbed = start(0);
    const std::string expected = batches(undisturbed, 12);

    RestartableDataLoader three = start(3);
    const std::string first = batches(three, 4);
    const std::string state = three.state_dict().dump();
    std::printf("3 workers: %s\nstate:     %s\n", first.c_str(), state.c_str());

    RestartableDataLoader five = start(5);
    five.load_state_dict(StateDict::parse(state));
    const std::string rest = batches(five, 8);
    std::printf("5 workers: %s\n", rest.c_str());

    const bool equal = first + rest == expected;
    std::printf("%s\n", equal ? "equal to the undisturbed run" : "not equal");
    return equal ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "restartable: %s\n", error.what());
    return 1;
  }
}
