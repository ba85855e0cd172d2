#include "wrappers/recipe/options.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

using energon::AllOptions;
using energon::expected_value;
using energon::FailureAction;
using energon::find_option;
using energon::option_rows;
using energon::option_value;
using energon::OptionCaller;
using energon::OptionGroup;
using energon::OptionRow;
using energon::OptionUse;
using energon::set_option;
using energon::spelled;
using energon::with_option_names;

namespace {

// A value other than the default.
std::string other_value(const OptionRow& row) {
  AllOptions options;
  if (const auto member = row.member(options);
      const auto* const choice = std::get_if<energon::ChoiceMember>(&member)) {
    const auto& names = choice->names;
    return std::string(*std::find_if(names.begin(), names.end(),
                                     [&](std::string_view name) { return name != row.standard; }));
  }
  if (row.standard == "true" || row.standard == "false") {
    return row.standard == "true" ? "false" : "true";
  }
  if (row.unit == "bytes") {
    return "3MiB";
  }
  return row.unit == "seconds" ? "7s" : "7";
}

}  // namespace

TEST_CASE("the default of each row is that of its struct", "[wrappers][options]") {
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.name);
    AllOptions options;
    CHECK(option_value(options, row) == row.standard);
  }
}

TEST_CASE("each row sets its own member, from the string that it prints", "[wrappers][options]") {
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.name, expected_value(row));
    AllOptions options;
    const std::string value = other_value(row);
    REQUIRE(set_option(options, row, value));
    CHECK(option_value(options, row) == value);
    for (const OptionRow& other : option_rows()) {
      if (other.name != row.name) {
        CAPTURE(other.name);
        CHECK(option_value(options, other) == other.standard);
      }
    }
  }
}

TEST_CASE("names, flags and keywords of rows are distinct, and groups are together",
          "[wrappers][options]") {
  std::set<std::string> names;
  std::set<std::string> flags;
  std::set<std::string> keywords;
  std::vector<OptionGroup> groups;
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.name);
    CHECK(names.emplace(row.name).second);
    CHECK(find_option(row.name) == &row);
    const std::string flag = spelled(row, OptionCaller::kCommandLine);
    const std::string keyword = spelled(row, OptionCaller::kPython);
    CHECK((flag.empty() || flags.insert(flag).second));
    CHECK((keyword.empty() || keywords.insert(keyword).second));
    CHECK_FALSE(row.sentence.ends_with('.'));
    if (groups.empty() || groups.back() != row.group) {
      CHECK(std::find(groups.begin(), groups.end(), row.group) == groups.end());
      groups.push_back(row.group);
    }
  }
  CHECK(groups.size() == energon::kOptionGroups);
  CHECK(find_option("frobnicate") == nullptr);
}

TEST_CASE("invalid values leave an option unchanged", "[wrappers][options]") {
  const auto refuses = [](std::string_view name, std::string_view text) {
    AllOptions options;
    const OptionRow& row = *find_option(name);
    return !set_option(options, row, text) && option_value(options, row) == row.standard;
  };
  CHECK(refuses("batch_size", "0"));
  CHECK(refuses("batch_size", "1.5"));
  CHECK(refuses("batch_size", ""));
  CHECK(refuses("shuffle_buffer_size", "none"));
  CHECK(refuses("world_size", "99999999999"));
  CHECK(refuses("prefetch_factor", "1025"));
  CHECK(refuses("arena_limit_bytes", "2TiB"));
  CHECK(refuses("arena_limit_bytes", "0"));
  CHECK(refuses("timeout", "0"));
  CHECK(refuses("timeout", "-1"));
  CHECK(refuses("shuffle_over_epochs", "0"));
  CHECK(refuses("division", "0"));
  CHECK(refuses("repeat", "yes"));
}

TEST_CASE("expected values name the range in the unit of the option", "[wrappers][options]") {
  const auto expected = [](std::string_view name) { return expected_value(*find_option(name)); };
  CHECK(expected("world_size") == "a whole number of at least 1");
  CHECK(expected("prefetch_factor") == "a whole number from 1 to 1024, or none");
  CHECK(expected("seed_offset") == "a whole number");
  CHECK(expected("arena_limit_bytes") == "a size in bytes, such as 4096 or 512MiB, from 1 to 1TiB");
  CHECK(expected("timeout") ==
        "seconds from 1ms to 1000000000s, with a unit as in 500ms or 2h, or none");
  CHECK(expected("division") == "one of even, energon");
}

TEST_CASE("validation has the options that it shares with training, and limit",
          "[wrappers][options]") {
  AllOptions options;
  REQUIRE(set_option(options, *find_option("batch_size"), "4"));
  REQUIRE(set_option(options, *find_option("remainder"), "drop"));
  REQUIRE(set_option(options, *find_option("sort_pool_size"), "8"));
  REQUIRE(set_option(options, *find_option("packing_buffer_size"), "9"));
  REQUIRE(set_option(options, *find_option("limit"), "3"));
  REQUIRE(set_option(options, *find_option("on_error"), "skip"));
  REQUIRE(set_option(options, *find_option("log_path"), "a.jsonl"));
  const energon::ValOptions val = val_options_of(options);
  CHECK(val.batch_size == 4);
  CHECK(val.remainder == energon::BatchOptions::Remainder::kDrop);
  CHECK(val.sort_pool_size == 8);
  CHECK(val.packing_buffer_size == 9);
  CHECK(val.limit == 3);
  CHECK(val.errors.standard.action == FailureAction::kSkip);
  CHECK(val.log_path == "a.jsonl");
}

TEST_CASE("messages name options as the caller spells them", "[wrappers][options]") {
  const auto flags = [](std::string_view text) {
    return with_option_names(text, OptionCaller::kCommandLine);
  };
  CHECK(flags("raise arena_limit_bytes.") == "raise --arena-limit-bytes.");
  CHECK(flags("allow_uneven, quarantine_file") == "--uneven, --quarantine");
  CHECK(flags("without a timeout of the split") == "without a timeout of the split");
  CHECK(flags("see data/batch_size/x and \"batch_size\": 3") ==
        "see data/batch_size/x and \"batch_size\": 3");
  CHECK(flags("limit n_checkpoints") == "limit n_checkpoints");  // not a flag
  CHECK(with_option_names("parallel_slices is 0", OptionCaller::kPython) ==
        "parallel_shard_iters= is 0");
  CHECK(spelled(*find_option("repeat"), OptionCaller::kCommandLine) == "--no-repeat");
  CHECK(member_name(*find_option("limit")) == "ValOptions::limit");
  CHECK(type_name(*find_option("timeout")) == "std::chrono::milliseconds");
}
