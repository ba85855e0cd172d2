#include "energon/protocols/checkpoint_names.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "energon/protocols/checkpoint_mark.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kPositionPrefix = "position_";

// Skips the digits that `text` begins with; false if there are none.
bool skip_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  return digits > 0;
}

bool skip(std::string_view& text, std::string_view prefix) {
  const bool is_there = text.starts_with(prefix);
  text.remove_prefix(is_there ? prefix.size() : 0);
  return is_there;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{}", kStepPrefix, step); }

std::string rank_file_name(int rank) { return fmt::format("rank_{}.state", rank); }

std::optional<std::int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  std::int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return step > 0 && name == checkpoint_name(step) ? std::optional(step) : std::nullopt;
}

bool is_beyond_steps(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return false;
  }
  name.remove_prefix(kStepPrefix.size());
  const std::string most = std::to_string(kMostSteps);
  return !name.empty() && name.front() != '0' &&
         name.find_first_not_of("0123456789") == std::string_view::npos &&
         (name.size() > most.size() || (name.size() == most.size() && name > most));
}

std::string position_file_name(std::string_view digits) {
  return fmt::format("{}{}", kPositionPrefix, digits);
}

bool is_rank_file(std::string_view name) {
  return skip(name, "rank_") && skip_number(name) && name == ".state";
}

bool is_position_file(std::string_view name) {
  return skip(name, kPositionPrefix) && name.size() == 16 &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_checkpoint_file(std::string_view name) {
  const std::string_view target = target_of_temporary(name);
  name = target.empty() ? name : target;
  return name == kMarkName || is_rank_file(name) || is_position_file(name);
}

}  // namespace energon
