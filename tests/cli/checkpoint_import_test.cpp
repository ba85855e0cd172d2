// energon checkpoint import: jobs continue from states that the real Energon saved
// (python/tests/energon_states/stored); other files, and states of other jobs, are refused.

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/dataset_builder.h"

using energon::testing::eventually;
using energon::testing::json_lines;
using energon::testing::run_energon;
using energon::testing::RunningProgram;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;
using energon::testing::operator+;
using energon::testing::Words;
using std::string_literals::operator""s;

namespace {

using Batches = std::vector<std::vector<std::int64_t>>;

const std::vector<std::int64_t> kShards = {13, 7, 20, 11};

std::string stored(const std::string& name) {
  return std::string(ENERGON_SOURCE_DIR) + "/python/tests/energon_states/stored/" + name;
}

nlohmann::json expected_states() {
  return nlohmann::json::parse(energon::read_file(stored("expected.json")));
}

// The flags of the job in the file `name`.
Words flags_of(const std::string& name) {
  for (const nlohmann::json& entry : expected_states()) {
    if (entry.at("file") == name) {
      return entry.at("flags");
    }
  }
  return {};
}

Batches batches_in(const std::string& printed) {
  Batches batches;
  for (const nlohmann::json& line : json_lines(printed)) {
    if (line.contains("keys")) {
      batches.emplace_back();
      for (const std::string key : line.at("keys")) {
        batches.back().push_back(std::stoll(key.substr(key.rfind('/') + 1)));
      }
    }
  }
  return batches;
}

// Data, and a folder with an existing state.
struct Job {
  Job() { write_numbered_shards(data, kShards); }

  energon::testing::ProgramResult import(const std::string& file, const Words& flags) const {
    return run_energon(Words{"checkpoint", "import", data.path(), file, "--output", output} +
                       flags);
  }
  // The error of an import. An existing output is kept, a new one is not created.
  std::string refused(const std::string& file, const Words& flags) const {
    states.write("job.state", "what was there");
    const auto result = import(file, flags);
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK(energon::read_file(output) == "what was there");
    std::filesystem::remove(output);
    CHECK(import(file, flags).exit_code == 1);
    CHECK_FALSE(std::filesystem::exists(output));
    CHECK_THAT(result.err, Catch::StartsWith("energon: error: "));
    return result.err;
  }

  TempDir data;
  TempDir states;
  const std::string output = states.file("job.state");
};

// A pickle of ranks with one worker each that delivered this many batches. The letters are opcodes:
// io/pickle.cpp.
std::string delivered(const std::vector<std::int64_t>& counts) {
  const auto text = [](const std::string& content) {
    return "\x8c"s + static_cast<char>(content.size()) + content;
  };
  const auto object = [](const std::string& name, const std::string& fields) {
    return "cmegatron.energon.savable_loader\n" + name + "\n)\x81}(" + fields + "ub";
  };
  std::string ranks;
  for (const std::int64_t count : counts) {
    std::string offset = "\x8a\x08";  // Energon counts from before the first batch
    for (int i = 0; i < 8; ++i) {
      offset += static_cast<char>((count + 1) >> (8 * i) & 0xFF);
    }
    const std::string worker =
        object("SavableDatasetCheckpoint", text("state") + "N" + text("offset") + offset);
    ranks += object("SavableDataLoaderState", text("worker_states") + "](" + worker + "e" +
                                                  text("next_worker_id") + "K\x00"s +
                                                  text("micro_batch_size") + "K\x04");
  }
  return "\x80\x02](" + ranks + "e.";
}

// Whether the program has a handler for SIGINT.
bool catches_interrupts(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  const std::string text(std::istreambuf_iterator<char>(status), {});
  const std::size_t at = text.find("SigCgt:\t");
  return at != std::string::npos &&
         (std::stoull(text.substr(at + 8, 16), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
}

Words replaced(Words flags, const std::string& flag, const std::string& value) {
  for (std::size_t i = 0; i + 1 < flags.size(); ++i) {
    if (flags[i] == flag) {
      flags[i + 1] = value;
      return flags;
    }
  }
  return flags + Words{flag, value};
}

}  // namespace

TEST_CASE("jobs continue from states of Energon with the batch that came next there",
          "[cli][checkpoint][fork]") {
  const Job job;
  int ranks = 0;
  for (const nlohmann::json& entry : expected_states()) {
    const std::string file = entry.at("file");
    CAPTURE(file);
    REQUIRE(entry.at("shards") == kShards);
    const Words flags = entry.at("flags");
    const auto result = job.import(stored(file), flags);
    REQUIRE(result.err.empty());
    CHECK_THAT(result.out, Catch::Contains("job.state: ") && Catch::Contains(" 9 batches") &&
                               Catch::Contains("restore it with --world-size"));
    const std::size_t world_size = entry.at("ranks").size();
    for (std::size_t rank = 0; rank < world_size; ++rank) {
      const Batches expected = entry.at("ranks").at(rank);
      const bool is_val = flags[1] == "val";
      const auto printed =
          run_energon(Words{"run", job.data.path(), "--world-size", std::to_string(world_size),
                            "--rank", std::to_string(rank), "--restore-from", job.output, "--limit",
                            std::to_string(expected.size())} +
                      (is_val ? Words{"--epochs", "50"} : Words{"--epoch-policy", "loop"}) + flags);
      REQUIRE(printed.err.empty());
      CHECK(expected.size() == 31);
      CHECK(batches_in(printed.out) == expected);
      ++ranks;
    }
  }
  CHECK(ranks == 4);
}

TEST_CASE("a state of Energon of another job is refused with the options to check",
          "[cli][checkpoint][fork]") {
  const Job job;
  const std::string shuffled = stored("shuffled.pt");
  const std::string workers = stored("workers.pickle");
  const Words of_shuffled = flags_of("shuffled.pt");
  const Words of_workers = flags_of("workers.pickle");
  const auto refused_with = [&](const std::string& flag, const std::string& value) {
    return job.refused(shuffled, replaced(of_shuffled, flag, value));
  };
  CHECK_THAT(refused_with("--batch-size", "3"),
             Catch::Contains("batches of 4 samples, this one has batches of 3 samples"));
  CHECK_THAT(refused_with("--shuffle-buffer-size", "6"),
             Catch::Contains("4 samples are in Energon's shuffle buffer, expected 5"));
  CHECK_THAT(refused_with("--shuffle-buffer-size", "0"), Catch::Contains("shuffle buffer"));
  CHECK_THAT(refused_with("--max-samples-per-sequence", "3"),
             Catch::Contains("--max-samples-per-sequence"));
  CHECK_THAT(refused_with("--seed-offset", "1"), Catch::Contains("check the seed offset"));
  CHECK_THAT(refused_with("--num-workers", "2"),
             Catch::Contains("--num-workers is 2, but the states have 0 workers"));
  CHECK_THAT(job.refused(workers, replaced(of_workers, "--mode", "val")),
             Catch::Contains("whether it is for training"));
  CHECK_THAT(refused_with("--world-size", "2"), Catch::Contains("check the"));
  CHECK_THAT(refused_with("--logical-shards", "4"), Catch::Contains("checkpoint rescale"));
  CHECK_THAT(job.refused(workers, replaced(of_workers, "--virtual-epoch-length", "10")),
             Catch::Contains("check the length of virtual epochs"));
  CHECK_THAT(job.refused(stored("ranks_of_old_torch.pt"),
                         replaced(flags_of("ranks_of_old_torch.pt"), "--world-size", "3")),
             Catch::Contains("states of 2 ranks, but the job has 3"));
}

TEST_CASE("a state of Energon of other data is refused", "[cli][checkpoint][fork]") {
  const Job job;
  const TempDir other;
  write_numbered_shards(other, {13, 7, 21, 11});
  const auto result = run_energon(
      Words{"checkpoint", "import", other.path(), stored("shuffled.pt"), "--output", job.output} +
      flags_of("shuffled.pt"));
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Catch::Contains("check the data") && Catch::Contains("shuffled.pt"));
  CHECK_FALSE(std::filesystem::exists(job.output));
}

TEST_CASE("files that are not states of Energon are refused without running any code in them",
          "[cli][checkpoint][fork]") {
  const Job job;
  const Words flags = flags_of("shuffled.pt");
  const auto refused = [&](const std::string& content) {
    job.states.write("bad.pt", content);
    return job.refused(job.states.file("bad.pt"), flags);
  };
  CHECK_THAT(job.refused(job.states.file("missing.pt"), flags),
             Catch::Contains("No such file") && Catch::Contains("missing.pt"));
  CHECK_THAT(refused(""), Catch::Contains("the pickle is cut") && Catch::Contains("bad.pt"));
  CHECK_THAT(refused("no pickle at all"), Catch::Contains("expected a pickle of protocol 2 to 5"));
  const std::string marker = job.states.file("marker");
  const std::string touch = "touch " + marker;
  const std::string argument = "\x8c"s + static_cast<char>(touch.size()) + touch;
  CHECK_THAT(refused("\x80\x02"s + "cos\nsystem\n" + argument + "\x85R."),
             Catch::Contains("the pickle refers to 'os.system'") && Catch::Contains("byte 2"));
  CHECK_THAT(refused("\x80\x02"s + "cbuiltins\neval\n" + argument + "\x85R."),
             Catch::Contains("'builtins.eval'"));
  CHECK_FALSE(std::filesystem::exists(marker));
  CHECK_THAT(refused("\x80\x02}\x8c\x05modelK\x01s."),
             Catch::Contains("a dict with the entries 'model'"));
}

TEST_CASE("a state of Energon is not replaced by its converted state", "[cli][checkpoint]") {
  const Job job;
  const std::string content = energon::read_file(stored("shuffled.pt"));
  job.states.write("rank.pt", content);
  std::filesystem::create_symlink(job.states.file("rank.pt"), job.output);
  const auto result = job.import(job.states.file("rank.pt"), flags_of("shuffled.pt"));
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Catch::Contains("--output would overwrite an input state of Energon"));
  CHECK(energon::read_file(job.states.file("rank.pt")) == content);
}

TEST_CASE("ranks at different steps are imported one by one", "[cli][checkpoint][fork]") {
  const Job job;
  const Words flags = {"--batch-size", "4"};
  job.states.write("both", delivered({5, 4}));
  CHECK_THAT(job.refused(job.states.file("both"), flags),
             Catch::Contains("--rank and --world-size"));
  job.states.write("one", delivered({4}));
  const auto result =
      job.import(job.states.file("one"), flags + Words{"--world-size", "2", "--rank", "1"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("rank 1 of 2, 4 batches"));
}

TEST_CASE("Ctrl-C ends an import", "[cli][checkpoint][fork]") {
  const Job job;
  job.states.write("far", delivered({4'000'000'000'000}));
  RunningProgram program(Words{"checkpoint", "import", job.data.path(), job.states.file("far"),
                               "--output", job.output, "--batch-size", "4"});
  REQUIRE(eventually([&program] { return catches_interrupts(program.pid()); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto begin = std::chrono::steady_clock::now();
  program.send_signal(SIGINT);
  const auto result = program.finish();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
  CHECK(result.exit_code == 130);
  CHECK_FALSE(std::filesystem::exists(job.output));
}
