// Many tars in turn, with the descriptors that the system grants.

#include <sys/resource.h>

#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/rng.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/support/child_runner.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/sanitizer.h"
#include "tests/support/skip.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace {

std::size_t open_tars() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).extension() == ".tar" ? 1 : 0;
  }
  return count;
}

// Reads batches of random samples. Returns 0 if each sample is right.
int read_at_random(const std::vector<std::shared_ptr<LeafReader>>& readers, std::int64_t samples) {
  Mt19937 draw(5);
  HeapBufferPool memory;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int64_t> batch;
    for (int k = 0; k < 8; ++k) {
      batch.push_back(static_cast<std::int64_t>(draw()) % samples);
    }
    std::vector<Sample> read;
    readers[draw() % readers.size()]->read(batch, memory, read);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      if (numbers(read[k]) != std::vector{batch[k]}) {
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("datasets of a process share the available descriptors", "[energon][tars][fork]") {
  const TempDir one;
  const TempDir two;
  const std::vector<std::int64_t> counts(60, 3);
  const std::vector<std::shared_ptr<const Webdataset>> leaves = {numbered_dataset(one, counts),
                                                                 numbered_dataset(two, counts)};
  const rlim_t most = GENERATE(40, 80, 2000);
  const auto child = run_in_child([&] {
    const rlimit limit{.rlim_cur = most, .rlim_max = most};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    LeafReaders readers;
    if (read_at_random({readers.of(leaves[0]), readers.of(leaves[1])}, 180) != 0) {
      return 1;
    }
    const std::size_t open = open_tars();
    return open <= readers.budgets().tars->limit() && open >= std::min<rlim_t>(most / 2, 120) ? 0
                                                                                              : 2;
  });
  CHECK(child.exit_code == 0);
}

TEST_CASE("if other files take the descriptors, tars are closed and reopened",
          "[energon][tars][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, std::vector<std::int64_t>(60, 3));
  const auto child = run_in_child([&] {
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    LeafReaders readers;
    const auto reader = readers.of(dataset);
    if (read_at_random({reader}, 180) != 0) {
      return 1;
    }
    std::vector<UniqueFd> others;
    while (others.empty() || others.back().valid()) {
      others.emplace_back(::dup(0));
    }
    if (read_at_random({reader}, 180) != 0) {
      return 2;
    }
    others.clear();  // to look at the list
    const std::size_t open = open_tars();
    return open >= 1 && readers.budgets().tars->limit() >= open ? 0 : 3;
  });
  CHECK(child.exit_code == 0);
}

TEST_CASE("a reader opens as many tars as before when other files give descriptors back",
          "[energon][tars][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    return skip_case("the sanitizer needs descriptors to check the types of objects");
  }
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, std::vector<std::int64_t>(60, 3));
  const auto child = run_in_child([&] {
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    LeafReaders readers;
    const auto reader = readers.of(dataset);
    std::vector<UniqueFd> others;
    while (others.empty() || others.back().valid()) {
      others.emplace_back(::dup(0));
    }
    others.resize(others.size() - 15);
    if (read_at_random({reader}, 180) != 0) {
      return 1;
    }
    if (readers.budgets().tars->limit() > 20) {
      return 2;
    }
    others.clear();
    for (int round = 0; round < 10; ++round) {
      if (read_at_random({reader}, 180) != 0) {
        return 3;
      }
    }
    return open_tars() == 60 ? 0 : 4;
  });
  CHECK(child.exit_code == 0);
}

TEST_CASE("without free descriptors the error names the limit and the remedy",
          "[energon][tars][fork]") {
  if (ENERGON_ADDRESS_SANITIZER) {
    skip_case("the sanitizer needs descriptors to check the types of objects");
    return;
  }
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 3});
  const auto child = run_in_child([&] {
    const rlimit limit{.rlim_cur = 30, .rlim_max = 30};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    LeafReaders readers;
    const auto reader = readers.of(dataset);
    std::vector<UniqueFd> others;
    while (others.empty() || others.back().valid()) {
      others.emplace_back(::dup(0));
    }
    HeapBufferPool memory;
    std::vector<Sample> samples;
    const std::int64_t index = 4;
    try {
      reader->read({&index, 1}, memory, samples);
      return 1;
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const char* part :
           {"Too many open files", "may have 30", "ulimit -n", "shard-001.tar"}) {
        if (text.find(part) == std::string::npos) {
          return 2;
        }
      }
      if (error.code() != ErrorCode::kIo || !samples.empty()) {
        return 3;
      }
    }
    others.clear();
    reader->read({&index, 1}, memory, samples);
    return numbers(samples.at(0)) == std::vector<std::int64_t>{4} ? 0 : 4;
  });
  CHECK(child.exit_code == 0);
}

TEST_CASE("a tar that is opened again must still be the one that was indexed", "[energon][tars]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {3, 3, 3}, 0, {.open_shards = 1});
  WebdatasetReader reader(dataset);
  HeapBufferPool memory;
  std::vector<Sample> samples;
  for (const std::int64_t index : {0, 3, 6}) {
    reader.read({&index, 1}, memory, samples);
  }
  folder.write("shard-000.tar", read_file(folder.file("shard-001.tar")));
  const std::int64_t index = 1;
  CHECK_THROWS_WITH(reader.read({&index, 1}, memory, samples), Catch::Contains("shard changed"));
  CHECK(samples.size() == 3);
}
