// ACC-22: states of several loaders and ranks in one folder.

#include "protocols/accelerate/state_files.h"

#include <array>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "protocols/accelerate/shard_adapter.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/protocols/numbered_batches.h"
#include "tests/support/temp_dir.h"

using energon::BatchSource;
using energon::Comm;
using energon::IndexedSource;
using energon::SavableDataLoaderState;
using energon::ShardAdapter;
using energon::testing::numbered_batch;
using energon::testing::run_group;
using energon::testing::take;
using energon::testing::TempDir;
using energon::testing::texts;

namespace {

// The adapters of one rank: a training and a validation loader.
struct Loaders {
  explicit Loaders(const Comm& comm)
      : train(make(comm, 64)), validation(make(comm, 16)), all{&train, &validation} {}

  static std::shared_ptr<IndexedSource> make(const Comm& comm, std::int64_t samples) {
    return std::make_shared<IndexedSource>(
        energon::IndexedOptions{
            .samples = samples, .batch_size = 4, .processes = comm.size(), .process = comm.rank()},
        numbered_batch);
  }

  ShardAdapter train;
  ShardAdapter validation;
  std::array<BatchSource*, 2> all;
};

}  // namespace

TEST_CASE("ACC-22 two loaders of two ranks have four files in one folder",
          "[distributed][acc][fork]") {
  const TempDir folder;
  const auto saved = texts(run_group(2, [&](Comm& comm) {
    Loaders loaders(comm);
    // The ranks are at different places, so their files differ.
    take(loaders.train, 2 + static_cast<std::size_t>(comm.rank()));
    take(loaders.validation, 1);
    save_states(folder.path(), loaders.all, comm.rank());
    return take(loaders.train) + "|" + take(loaders.validation);
  }));
  CHECK(energon::state_file_name(0, 0) == "dl_state_dict.bin");
  CHECK(energon::state_file_name(1, 0) == "dl_state_dict_1.bin");
  CHECK(energon::state_file_name(0, 1) == "dl_state_dict.rank1.bin");
  CHECK(energon::read_file(folder.file("dl_state_dict.bin")) !=
        energon::read_file(folder.file("dl_state_dict.rank1.bin")));
  CHECK(energon::read_file(folder.file("dl_state_dict_1.bin")) !=
        energon::read_file(folder.file("dl_state_dict_1.rank1.bin")));
  const auto resumed = texts(run_group(2, [&](Comm& comm) {
    Loaders loaders(comm);
    const auto missing = restore_states(folder.path(), loaders.all, comm.rank());
    return missing.empty() ? take(loaders.train) + "|" + take(loaders.validation) : missing[0];
  }));
  CHECK(resumed == saved);
}

TEST_CASE("ACC-22 a loader whose file is missing starts fresh, and its name is returned",
          "[distributed][acc]") {
  const TempDir folder;
  energon::SingleProcessComm comm;
  Loaders loaders(comm);
  CHECK(restore_states(folder.path(), loaders.all, 0) ==
        std::vector<std::string>{"dl_state_dict.bin", "dl_state_dict_1.bin"});
  take(loaders.train, 3);
  save_states(folder.path(), std::span(loaders.all).first(1), 0);
  Loaders fresh(comm);
  CHECK(restore_states(folder.path(), fresh.all, 0) ==
        std::vector<std::string>{"dl_state_dict_1.bin"});
  CHECK(take(fresh.train, 1) == "[12,13,14,15]");
  CHECK(take(fresh.validation, 1) == "[0,1,2,3]");
}

TEST_CASE("a state file that is damaged, too new or belongs to another rank is refused",
          "[distributed]") {
  const SavableDataLoaderState state = energon::source_state(
      {"Indexed", {{"epoch", std::int64_t{1}}, {"batches", std::int64_t{2}}}, {}}, {1, 2});
  const std::string bytes = energon::encode_state_file(state, 1, 2);
  CHECK(energon::decode_state_file(bytes, 1, 2) == state);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(energon::decode_state_file(bytes.substr(0, size), 1, 2), energon::Error);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK_THROWS_AS(energon::decode_state_file(flipped, 1, 2), energon::Error);
  }
  CHECK_THROWS_WITH(energon::decode_state_file(bytes, 0, 2),
                    Catch::Contains("loader 1 on rank 2, expected loader 0 on rank 2"));
  std::string newer = bytes;
  newer[8] = 2;
  CHECK_THROWS_WITH(energon::decode_state_file(newer, 1, 2), Catch::Contains("version 2"));
}

TEST_CASE("one damaged file among several prevents all restores", "[distributed]") {
  const TempDir folder;
  energon::SingleProcessComm comm;
  Loaders loaders(comm);
  take(loaders.train, 3);
  save_states(folder.path(), loaders.all, 0);
  folder.write("dl_state_dict_1.bin", "nonsense");
  Loaders fresh(comm);
  CHECK_THROWS_WITH(restore_states(folder.path(), fresh.all, 0),
                    Catch::Contains("dl_state_dict_1.bin"));
  CHECK(take(fresh.train, 1) == "[0,1,2,3]");
}
