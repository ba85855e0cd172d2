// a run saved through each interface and continued through each other one.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/autosave/auto_saver.h"
#include "energon/autosave/checkpoint_folder.h"
#include "energon/checkpoint/state_forms.h"
#include "protocols/cerebras/restartable_rank.h"
#include "protocols/torchdata/stateful_data_loader.h"
#include "tests/support/memory_leaf.h"
#include "tests/support/temp_dir.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::testing {
namespace {

using Lines = std::vector<std::string>;

// The parts of a run: the pipeline and the workers.
struct Run {
  PipelineFactory pipeline;
  int num_workers = 0;

  LoaderOptions options() const { return {.worker_config = {.num_workers = num_workers}}; }
};

// How one interface runs, saves and continues. A saved position is a string in the interface's own
// form.
struct Interface {
  std::string name;
  // Takes `batches` from `saved`, or from the start if it is empty, and saves.
  std::function<std::string(const Run&, const std::string& saved, int batches, Lines& taken)> run;
  // Converts its form of the position from and to the core's.
  std::function<SavableDataLoaderState(const std::string& saved)> to_core;
  std::function<std::string(const SavableDataLoaderState&)> from_core;
};

std::string line_of(const std::optional<Sample>& batch) {
  return batch ? fmt::format("{}", fmt::join(batch->keys, " ")) : "end";
}

template <class Loader>
void take_into(Loader& loader, int batches, Lines& taken) {
  for (int i = 0; i < batches; ++i) {
    taken.push_back(line_of(loader.next()));
  }
}

Interface savable() {
  return {.name = "savable",
          .run =
              [](const Run& run, const std::string& saved, int batches, Lines& taken) {
                SavableDataLoader loader(run.pipeline, run.options());
                if (!saved.empty()) {
                  loader.restore_state_rank(decode_loader_state(saved));
                }
                take_into(loader, batches, taken);
                return encode_loader_state(loader.save_state_rank());
              },
          .to_core = decode_loader_state,
          .from_core = encode_loader_state};
}

Interface stateful() {
  return {
      .name = "stateful",
      .run =
          [](const Run& run, const std::string& saved, int batches, Lines& taken) {
            StatefulDataLoader loader(run.pipeline, run.options(), {.snapshot_every_n_steps = 3});
            if (!saved.empty()) {
              loader.load_state_dict(StateDict::parse(saved));
            }
            loader.iterate();
            for (int i = 0; i < batches; ++i) {
              taken.push_back(line_of(loader.next()));
              if (taken.back() == "end") {
                loader.iterate();
              }
            }
            return loader.state_dict().dump();
          },
      .to_core =
          [](const std::string& saved) {
            return loader_state_from_json(StateDict::parse(saved).at("source").at("loader"));
          },
      .from_core =
          [](const SavableDataLoaderState& state) {
            const StateDict source = {{"type", "Loader"}, {"loader", loader_state_to_json(state)}};
            return StateDict({{"version", 1}, {"steps", 0}, {"source", source}}).dump();
          }};
}

Interface restartable() {
  return {.name = "restartable",
          .run =
              [](const Run& run, const std::string& saved, int batches, Lines& taken) {
                RestartableRank loader(
                    std::make_shared<SavableDataLoader>(run.pipeline, run.options()));
                if (!saved.empty()) {
                  loader.load_state_dict(
                      loader.deaggregate_state_dict(StateDict::parse(saved), Strictness::kStrict),
                      Strictness::kStrict);
                }
                take_into(loader, batches, taken);
                return loader.aggregate_state_dict(std::vector{loader.state_dict()}).dump();
              },
          .to_core =
              [](const std::string& saved) {
                return loader_state_from_json(StateDict::parse(saved).at("ranks").at(0));
              },
          .from_core =
              [](const SavableDataLoaderState& state) {
                return StateDict({{"ranks", {loader_state_to_json(state)}}}).dump();
              }};
}

// Its saved position is a folder of checkpoints.
Interface auto_saving(const TempDir& folders) {
  const auto fresh = [&folders, count = std::make_shared<int>(0)] {
    return folders.file(std::to_string((*count)++));
  };
  return {.name = "auto-saving",
          .run =
              [fresh](const Run& run, const std::string& saved, int batches, Lines& taken) {
                const std::string folder = fresh();
                AutoSavingLoader loader(
                    run.pipeline, run.options(),
                    {.folder = folder, .every_batches = batches, .load_from = saved});
                take_into(loader, batches, taken);
                return folder;
              },
          .to_core =
              [](const std::string& saved) {
                return find_newest_checkpoint(saved).newest->job.ranks.at(0);
              },
          .from_core =
              [fresh](const SavableDataLoaderState& state) {
                const std::string folder = fresh();
                write_checkpoint(folder, 1, state);
                return folder;
              }};
}

}  // namespace

TEST_CASE("X-01 a state saved through one interface can be continued through any other",
          "[protocols][cross][fork]") {
  const int num_workers = GENERATE(0, 2);
  TrainOptions options;
  options.batch_size = 3;
  options.shuffle_buffer_size = 20;
  const Run run{train_pipeline(std::shared_ptr<const MemoryLeaf>(std::make_shared<MemoryLeaf>(
                                   "", std::vector<std::int64_t>{40, 25, 1, 60})),
                               options),
                num_workers};
  constexpr int kFirst = 11;
  constexpr int kRest = 60;  // across the end of the data
  Lines expected;
  savable().run(run, "", kFirst + kRest, expected);

  const TempDir folders;
  const std::vector<Interface> interfaces = {savable(), stateful(), restartable(),
                                             auto_saving(folders)};
  for (const Interface& first : interfaces) {
    for (const Interface& second : interfaces) {
      CAPTURE(first.name, second.name, num_workers);
      Lines taken;
      const std::string saved = first.run(run, "", kFirst, taken);
      const std::string handed_over = second.from_core(first.to_core(saved));
      second.run(run, handed_over, kRest, taken);
      CHECK(taken == expected);
    }
  }
}

}  // namespace energon::testing
