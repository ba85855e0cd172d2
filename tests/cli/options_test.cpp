#include "wrappers/recipe/options.h"

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/temp_dir.h"

using energon::fits;
using energon::option_rows;
using energon::OptionCaller;
using energon::OptionRow;
using energon::OptionUse;
using energon::spelled;
using energon::testing::operator+;
using energon::testing::ProgramResult;
using energon::testing::run_energon;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

// A flag with a value that its row accepts.
Words with_value(const OptionRow& row) {
  const std::string flag = spelled(row, OptionCaller::kCommandLine);
  if (row.standard == "true" || row.standard == "false") {
    return {flag};
  }
  return {flag, row.standard == "none" ? "3" : std::string(row.standard)};
}

}  // namespace

TEST_CASE("docs/reference/options.md is what `energon options --markdown` prints",
          "[cli][options]") {
  const ProgramResult result = run_energon({"options", "--markdown"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == energon::read_file(ENERGON_SOURCE_DIR "/docs/reference/options.md"));
}

TEST_CASE("the table of options as JSON has all rows", "[cli][options]") {
  const auto table = nlohmann::json::parse(run_energon({"options", "--json"}).out);
  REQUIRE(table.size() == option_rows().size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const OptionRow& row = option_rows()[i];
    CAPTURE(row.name);
    CHECK(table[i].at("name") == row.name);
    CHECK(table[i].at("default") == row.standard);
    CHECK(table[i].at("train") == fits(row, OptionUse::kTrain));
    CHECK(table[i].at("affects_order") == row.affects_order);
  }
}

TEST_CASE("one option is explained by its name, flag or keyword", "[cli][options]") {
  for (const std::string name : {"parallel_slices", "parallel-slices", "parallel_shard_iters"}) {
    CHECK_THAT(run_energon({"options", name}).out,
               Catch::StartsWith("parallel_slices: ") &&
                   Catch::Contains("std::int64_t TrainOptions::parallel_slices"));
  }
  const ProgramResult unknown = run_energon({"options", "parallel_slice"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Catch::Contains("did you mean 'parallel_slices'?"));
}

TEST_CASE("each flag of the table parses, is in --help, and is refused where it has no effect",
          "[cli][options]") {
  const TempDir folder;
  const std::string absent = folder.file("absent");
  const std::string help = run_energon({"run", "--help"}).out;
  for (const OptionRow& row : option_rows()) {
    const std::string flag = spelled(row, OptionCaller::kCommandLine);
    if (flag.empty()) {
      continue;
    }
    CAPTURE(flag);
    CHECK_THAT(help, Catch::Contains(flag));
    CHECK_THAT(help, Catch::Contains(std::string(heading(row.group)) + ":\n"));
    // The command line is read before the data is opened.
    const ProgramResult train = run_energon(Words{"run", absent} + with_value(row));
    CHECK(train.exit_code == 1);
    CHECK_THAT(train.err, Catch::Contains("no such file or folder"));
    const ProgramResult val = run_energon(Words{"run", absent, "--mode", "val"} + with_value(row));
    if (row.use == OptionUse::kTrain) {
      CHECK(val.exit_code == 2);
      CHECK_THAT(val.err, Catch::Contains(flag + " is only for --mode train"));
    }
  }
}
